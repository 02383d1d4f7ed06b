package schedule

import "github.com/pawl-dev/pawl/fault"

// The faults of schedules.
var (
	Invalid = fault.Declare(fault.Kind{
		Code: "SCHEDULE_INVALID", Class: fault.Invalid,
		Title:  "the spec of the schedule cannot be used",
		Remedy: "Fix what the message names and apply the schedule again.",
	})
	RangeInvalid = fault.Declare(fault.Kind{
		Code: "BACKFILL_INVALID", Class: fault.Invalid,
		Title:  "the time of the backfill cannot be used",
		Remedy: "Choose a time that has ended and holds at most 100 ticks; several backfills make up for more.",
	})
	ClockBehind = fault.Declare(fault.Kind{
		Code: "SCHEDULE_CLOCK_BEHIND", Class: fault.Blocked,
		Title:  "ticks later than now have been decided: a clock was ahead, or is behind",
		Remedy: "Set the clocks of the servers right. The schedule goes on after its newest tick; run the ticks before it that you need with `pawl schedule backfill NAME --from TIME --to TIME`.",
	})
)
