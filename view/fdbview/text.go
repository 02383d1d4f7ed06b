package fdbview

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/view"
)

// None stands where there is nothing.
const None = "–"

// Moment is how long ago something was.
func Moment(at, now time.Time) string {
	if at.IsZero() {
		return None
	}
	return view.Age(now.Sub(at)) + " ago"
}

// Because is a reason with its message.
func Because(reason, message string) string {
	message = oneLine(message)
	if reason == "" || message == "" {
		return cmp.Or(reason, message)
	}
	return reason + ": " + message
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// Bytes is a number of bytes for people.
func Bytes(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	value, names := float64(n), "KMGTPE"
	i := -1
	for value >= unit && i < len(names)-1 {
		value /= unit
		i++
	}
	return fmt.Sprintf("%.1f %ciB", value, names[i])
}
