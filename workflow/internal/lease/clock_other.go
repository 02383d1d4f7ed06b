//go:build !linux

package lease

import "time"

var begun = time.Now()

// sinceBoot returns the time since the start of the process. On this system no clock that continues
// during the sleep of the machine is known.
func sinceBoot() time.Duration { return time.Since(begun) }
