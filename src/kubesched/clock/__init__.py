"""Time and chance, as arguments.

The core never reads the wall clock and never rolls dice by itself: it is handed a `Clock` and a `Chance`. The live
program passes `RealClock`; tests and the offline engine pass `ManualClock`, whose time moves only when told to, so that
a run can be repeated from its seed and its events.
"""

from kubesched.clock.chance import Chance
from kubesched.clock.manual import ManualClock
from kubesched.clock.real import Clock, RealClock, Timer

__all__ = ["Chance", "Clock", "ManualClock", "RealClock", "Timer"]
