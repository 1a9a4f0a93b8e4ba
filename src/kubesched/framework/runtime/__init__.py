"""Running a profile's plugins: one file per family of merge rule, `runtime` ties them together, `build` makes it."""
