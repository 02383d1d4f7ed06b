package demo

import "testing"

// A read during an election is repeated; other errors, and an election without end, are
// returned.
func TestFinding23AnElectionIsNoLostQuorum(t *testing.T) {
	const (
		elected = "503 Service Unavailable: [-]linearizable_read failed: etcdserver: leader changed"
		lost    = "503 Service Unavailable: [-]linearizable_read failed: etcdserver: request timed out"
		down    = "connection refused"
	)
	for name, c := range map[string]struct {
		says []string
		want string
	}{
		"ready":                      {[]string{""}, ""},
		"ready after an election":    {[]string{elected, ""}, ""},
		"ready after two":            {[]string{elected, elected, ""}, ""},
		"quorum lost":                {[]string{lost, ""}, lost},
		"down":                       {[]string{down, ""}, down},
		"down after an election":     {[]string{elected, down, ""}, down},
		"an election without an end": {[]string{elected}, elected},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			got := retryDuringElection(func() string {
				said := c.says[min(asked, len(c.says)-1)]
				asked++
				return said
			})
			if got != c.want {
				t.Errorf("%q after %d questions, want %q", got, asked, c.want)
			}
		})
	}
}
