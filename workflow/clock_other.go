//go:build !linux

package workflow

import "time"

var begun = time.Now()

// sinceBoot counts from the start of the process where no clock is known that goes
// on while the machine sleeps.
func sinceBoot() time.Duration { return time.Since(begun) }
