"""The live connection to a Kubernetes API server.

    kubeconfig ──► connect ──► HttpTransport ◄── ApiClient ◄── Reflector ──► Changes to the core
                                                          ◄── ApiPort (bind, patch, delete) ◄── the core
                                                          ◄── EventSink, LeaseElector

`kubeconfig` and `auth` know who we are, `transport` moves bytes, `rest` turns them into answers or our exceptions,
`reflector` keeps a stream of changes running whatever the network does, `port` is what the core acts through.

Nothing here decides anything about scheduling, and nothing is decoded into anything but `kubesched.api` structs.
"""
