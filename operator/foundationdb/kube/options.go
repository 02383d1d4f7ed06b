package kube

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/operator/foundationdb"
)

// DefaultTools is the folder of the tools: <folder>/<major.minor>/fdbcli.
const DefaultTools = "/usr/bin/fdb"

// Options are the flags of `pawl operator` that begin with --fdb-. The zero value has all defaults.
type Options struct {
	// Limits are the numbers that judgements compare with.
	Limits fdb.Limits
	// Templates are what pod templates may contain.
	Templates foundationdb.TemplateLimits

	// Tools is the folder of the tools. Empty: DefaultTools.
	Tools string
	// CLITimeout is how long a call of a tool may take, MaxCLITimeout one that waits for data, for the whole status or
	// for a blob store. 0: fdb.CallTimeout, fdb.LongCallTimeout.
	CLITimeout, MaxCLITimeout time.Duration
	// GetTimeout and PostTimeout are for requests to sidecars. 0: 5 s, 10 s.
	GetTimeout, PostTimeout time.Duration
	// Look is how often a settled cluster is looked at. 0: DefaultLook.
	Look time.Duration
	// Selector chooses the clusters, backups and restores that are served. nil: all.
	Selector labels.Selector

	// ReplaceOnSecurityContextChange replaces groups whose security context has changed.
	ReplaceOnSecurityContextChange bool
	// KeepIncompatibleProcesses leaves processes alone that speak another protocol than the cluster.
	KeepIncompatibleProcesses bool
	// NoStatusCache reads the database status anew for each link, where a cluster does not say otherwise.
	NoStatusCache bool
	// AdoptAtOnce takes clusters over that another operator has made, without an approval.
	AdoptAtOnce bool
	// FixCoordinatorIPs lets the operator itself write new addresses of coordinators that have moved.
	FixCoordinatorIPs bool
}

// AddFlags adds a flag for each option. Durations may be numbers of seconds.
func (o *Options) AddFlags(f *pflag.FlagSet) {
	for _, flag := range o.flags() {
		added := f.VarPF(flag.value, "fdb-"+flag.name, "", flag.usage)
		if flag.value.Type() == "bool" {
			added.NoOptDefVal = "true"
		}
	}
}

type flag struct {
	name  string
	value pflag.Value
	usage string
}

func (o *Options) flags() []flag {
	l, t := &o.Limits, &o.Templates
	return []flag{
		{"cli-timeout", &period{to: &o.CLITimeout, byDefault: fdb.CallTimeout}, "how long a call of a tool may take"},
		{"max-cli-timeout", &period{to: &o.MaxCLITimeout, byDefault: fdb.LongCallTimeout}, "how long a call may take that waits for data, the whole status or a blob store"},
		{"get-timeout", &period{to: &o.GetTimeout, byDefault: defaultGetTimeout}, "how long a sidecar may take to answer a question"},
		{"post-timeout", &period{to: &o.PostTimeout, byDefault: defaultPostTimeout}, "how long a sidecar may take to copy files"},
		{"minimum-recovery-time-for-exclusion", &period{to: &l.Exclusion, byDefault: 120 * time.Second, none: -1}, "how long after a recovery processes may be excluded and removed"},
		{"minimum-recovery-time-for-inclusion", &period{to: &l.Inclusion, byDefault: 600 * time.Second, none: -1}, "how long after a recovery processes may be included"},
		{"minimum-recovery-time-for-configuration", &period{to: &l.Configuration, byDefault: 60 * time.Second, none: -1}, "how long after a recovery the database may be configured"},
		{"coordinator-missing-wait", &period{to: &l.CoordinatorMissing, byDefault: 120 * time.Second, none: -1}, "how long after a recovery a missing coordinator may be replaced"},
		{"coordinator-undesired-wait", &period{to: &l.CoordinatorUndesired, byDefault: 300 * time.Second, none: -1}, "how long after a recovery better coordinators may be chosen"},
		{"minimum-required-uptime-for-cc-bounce", &period{to: &l.ControllerUptime, byDefault: time.Hour, none: -1}, "how long the database must be up before the cluster controller is restarted because of dead testers"},
		{"global-synchronization-wait", &period{to: &l.GlobalSynchronizationWait, byDefault: 30 * time.Second, none: -1}, "how long the operators of one database must be quiet before they act together"},
		{"maintenance-list-stale", &period{to: &l.MaintenanceStale, byDefault: 4 * time.Hour}, "age at which an entry of the maintenance list is dropped"},
		{"maintenance-list-wait", &period{to: &l.MaintenanceWait, byDefault: 5 * time.Minute, none: -1}, "how long an entry of another zone keeps the maintenance on"},
		{"terminal-pod-age", &period{to: &l.TerminalPodAge, byDefault: 30 * time.Second, none: -1}, "age at which a pod that has ended is deleted"},
		{"bounce-sync-wait", &period{to: &l.BounceSyncWait, byDefault: 600 * time.Second, none: -1}, "how long a restart waits for configuration files that are not up to date"},
		{"run-loop-busy-threshold", &fraction{&l.RunLoopBusy}, "`load` of a run loop, 0 to 1, from which a process is shown as busy (0: never)"},
		{"exclusion-spare", &choice{&l.NoExclusionSpare, "tolerance", "none"}, "tolerance: as many processes of a class as the fault tolerance may be excluded beyond the spares; none: only spares"},
		{"replace-on-security-context-change", &choice{&o.ReplaceOnSecurityContextChange, "false", "true"}, "replace groups whose security context has changed"},
		{"restart-incompatible-processes", &choice{&o.KeepIncompatibleProcesses, "true", "false"}, "delete the pods of processes that speak another protocol than the cluster"},
		{"cache-database-status", &choice{&o.NoStatusCache, "true", "false"}, "read the database status once a pass, where a cluster does not say otherwise"},
		{"tools", &folder{&o.Tools}, "`folder` of fdbcli, fdbbackup and fdbrestore: <folder>/<major.minor>/fdbcli"},
		{"look", &period{to: &o.Look, byDefault: DefaultLook}, "how often a settled cluster is looked at"},
		{"label-selector", &selector{&o.Selector}, "`labels` of the clusters, backups and restores that are served (default: all)"},
		{"adopt", &choice{&o.AdoptAtOnce, "approved", "at-once"}, "when pods of a cluster that another operator has made may be changed: approved (by the annotation pawl.dev/approve) or at-once"},
		{"fix-coordinator-ips", &choice{&o.FixCoordinatorIPs, "false", "true"}, "write the new addresses of coordinators whose pods have moved"},
		{"allow-host-network", &choice{&t.NoHostNetwork, "true", "false"}, "pod templates may set hostNetwork"},
		{"allow-host-pid", &choice{&t.NoHostPID, "true", "false"}, "pod templates may set hostPID"},
		{"allow-host-ipc", &choice{&t.NoHostIPC, "true", "false"}, "pod templates may set hostIPC"},
		{"allow-automount-service-account-token", &choice{&t.NoAccountToken, "true", "false"}, "pod templates may mount the token of their service account"},
		{"allowed-service-accounts", &names{&t.ServiceAccounts}, "`names` of the service accounts that pod templates may use (default: all)"},
		{"allowed-volume-sources", &names{&t.VolumeSources}, "`sources` of volumes that pod templates may use, such as secret (default: all)"},
		{"allowed-volume-mounts", &names{&t.VolumeMounts}, "`names` of the volumes that pod templates may mount (default: all)"},
	}
}

// period is the value of a duration. 120 and 2m are the same.
type period struct {
	to        *time.Duration
	byDefault time.Duration
	none      time.Duration // what 0 is stored as, since the zero value of the option is its default; 0: 0 is refused
}

const longestPeriod = 10 * 365 * 24 * time.Hour // as a number of seconds

// Set implements pflag.Value.
func (p *period) Set(text string) error {
	d, err := time.ParseDuration(text)
	if seconds, number := strconv.ParseFloat(text, 64); number == nil && seconds >= 0 && seconds < longestPeriod.Seconds() {
		d, err = time.Duration(seconds*float64(time.Second)), nil
	}
	switch {
	case err != nil:
		return fmt.Errorf("%q is neither a duration nor a number of seconds", text)
	case d < 0, d == 0 && p.none == 0:
		return fmt.Errorf("%s is too short", text)
	case d == 0:
		d = p.none
	}
	*p.to = d
	return nil
}

// String implements pflag.Value.
func (p *period) String() string {
	if p.to == nil { // pflag makes such a value to find the default
		return ""
	}
	return short(max(0, cmp.Or(*p.to, p.byDefault)))
}

// short is 2m instead of 2m0s.
func short(d time.Duration) string {
	text := d.String()
	for _, zero := range []struct{ unit, rest string }{{"m0s", "m"}, {"h0m", "h"}} {
		if strings.HasSuffix(text, zero.unit) {
			text = strings.TrimSuffix(text, zero.unit) + zero.rest
		}
	}
	return text
}

// Type implements pflag.Value.
func (*period) Type() string { return "duration" }

// choice is the value of one of two words; the second one sets the option.
type choice struct {
	to          *bool
	unset, when string
}

// Set implements pflag.Value.
func (c *choice) Set(text string) error {
	word := text
	if c.Type() == "bool" {
		if value, err := strconv.ParseBool(text); err == nil {
			word = strconv.FormatBool(value)
		}
	}
	if word != c.unset && word != c.when {
		return fmt.Errorf("%q is neither %s nor %s", text, c.unset, c.when)
	}
	*c.to = word == c.when
	return nil
}

// String implements pflag.Value.
func (c *choice) String() string {
	if c.to != nil && *c.to {
		return c.when
	}
	return c.unset
}

// Type implements pflag.Value.
func (c *choice) Type() string {
	if c.when == "true" || c.when == "false" {
		return "bool"
	}
	return c.unset + "|" + c.when
}

// fraction is the value of a number from 0 to 1.
type fraction struct{ to *float64 }

// Set implements pflag.Value.
func (f *fraction) Set(text string) error {
	value, err := strconv.ParseFloat(text, 64)
	if err != nil || !(value >= 0 && value <= 1) {
		return fmt.Errorf("%q is no number from 0 to 1", text)
	}
	*f.to = value
	return nil
}

// String implements pflag.Value.
func (f *fraction) String() string {
	if f.to == nil {
		return ""
	}
	return strconv.FormatFloat(*f.to, 'g', -1, 64)
}

// Type implements pflag.Value.
func (*fraction) Type() string { return "float" }

// folder is the value of the folder of the tools.
type folder struct{ to *string }

// Set implements pflag.Value.
func (f *folder) Set(text string) error {
	if text == "" {
		return errors.New("a folder is needed")
	}
	*f.to = text
	return nil
}

// String implements pflag.Value.
func (f *folder) String() string {
	if f.to == nil {
		return ""
	}
	return cmp.Or(*f.to, DefaultTools)
}

// Type implements pflag.Value.
func (*folder) Type() string { return "string" }

// selector is the value of a label selector.
type selector struct{ to *labels.Selector }

// Set implements pflag.Value.
func (s *selector) Set(text string) error {
	chosen, err := labels.Parse(text)
	if err == nil {
		*s.to = chosen
	}
	return err
}

// String implements pflag.Value.
func (s *selector) String() string {
	if s.to == nil || *s.to == nil {
		return ""
	}
	return (*s.to).String()
}

// Type implements pflag.Value.
func (*selector) Type() string { return "string" }

// names is the value of a list. The flag may be given several times.
type names struct{ to *[]string }

// Set implements pflag.Value.
func (n *names) Set(text string) error {
	more := strings.Split(text, ",")
	if slices.Contains(more, "") {
		return fmt.Errorf("%q has an empty name", text)
	}
	*n.to = append(*n.to, more...)
	return nil
}

// String implements pflag.Value.
func (n *names) String() string {
	if n.to == nil {
		return ""
	}
	return strings.Join(*n.to, ",")
}

// Type implements pflag.Value.
func (*names) Type() string { return "strings" }
