package cli

import (
	"errors"
	"time"

	"github.com/spf13/cobra"
)

// JoinWaits lets --wait stand alone or with a time behind it: --wait 10m is --wait=10m.
func JoinWaits(args []string) []string {
	var out []string
	for i := 0; i < len(args); i++ {
		if args[i] == "--" {
			return append(out, args[i:]...)
		}
		if args[i] == "--wait" && i+1 < len(args) {
			if new(span).Set(args[i+1]) == nil {
				out = append(out, "--wait="+args[i+1])
				i++
				continue
			}
		}
		out = append(out, args[i])
	}
	return out
}

// forever is the time of --wait without one.
const Forever = time.Duration(1<<63 - 1)

// WaitFlag adds --wait.
func WaitFlag(cmd *cobra.Command, wait *time.Duration, otherwise time.Duration, text string) {
	*wait = otherwise
	f := cmd.Flags().VarPF((*span)(wait), "wait", "", text)
	f.NoOptDefVal = foreverWord
	f.DefValue = ""
}

const foreverWord = "forever"

// span is a duration of a flag; it may be forever.
type span time.Duration

// String implements pflag.Value.
func (s *span) String() string {
	if time.Duration(*s) == Forever {
		return foreverWord
	}
	return time.Duration(*s).String()
}

// Set implements pflag.Value.
func (s *span) Set(text string) error {
	if text == foreverWord {
		*s = span(Forever)
		return nil
	}
	d, err := time.ParseDuration(text)
	*s = span(d)
	return err
}

// Type implements pflag.Value.
func (s *span) Type() string { return "duration" }

// TimeFlag adds a flag whose value is a time, or how long ago it was.
func TimeFlag(cmd *cobra.Command, at *time.Time, name, text string) {
	cmd.Flags().VarPF((*moment)(at), name, "", text).DefValue = ""
}

// moment is a time of a flag.
type moment time.Time

// String implements pflag.Value.
func (m *moment) String() string {
	if time.Time(*m).IsZero() {
		return ""
	}
	return time.Time(*m).Format(time.RFC3339Nano)
}

// Set implements pflag.Value.
func (m *moment) Set(text string) error {
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		*m = moment(time.Now().Add(-ago))
		return nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return errors.New("it is a time as 2026-11-01T00:00:00Z, or 5m for five minutes ago")
	}
	*m = moment(at)
	return nil
}

// Type implements pflag.Value.
func (m *moment) Type() string { return "time" }
