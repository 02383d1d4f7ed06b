package cli

import (
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
