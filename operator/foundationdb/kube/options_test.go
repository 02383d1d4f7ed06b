package kube

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/operator/foundationdb"
)

// defaults are those of the specification.
const defaults = `
adopt approved
allow-automount-service-account-token true
allow-host-ipc true
allow-host-network true
allow-host-pid true
allowed-service-accounts
allowed-volume-mounts
allowed-volume-sources
bounce-sync-wait 10m
cache-database-status true
cli-timeout 10s
coordinator-missing-wait 2m
coordinator-undesired-wait 5m
exclusion-spare tolerance
fix-coordinator-ips false
get-timeout 5s
global-synchronization-wait 30s
label-selector
look 1m
maintenance-list-stale 4h
maintenance-list-wait 5m
max-cli-timeout 40s
minimum-recovery-time-for-configuration 1m
minimum-recovery-time-for-exclusion 2m
minimum-recovery-time-for-inclusion 10m
minimum-required-uptime-for-cc-bounce 1h
post-timeout 10s
replace-on-security-context-change false
restart-incompatible-processes true
run-loop-busy-threshold 0
terminal-pod-age 30s
tools /usr/bin/fdb
`

func TestFlagDefaults(t *testing.T) {
	var o Options
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.AddFlags(f)
	var got strings.Builder
	f.VisitAll(func(flag *pflag.Flag) {
		got.WriteString("\n" + strings.TrimSpace(strings.TrimPrefix(flag.Name, "fdb-")+" "+flag.DefValue))
		if flag.Usage == "" || !strings.HasPrefix(flag.Name, "fdb-") {
			t.Errorf("%s: %q", flag.Name, flag.Usage)
		}
	})
	if got.String()+"\n" != defaults {
		t.Errorf("the defaults are %s", got.String())
	}
	if err := f.Parse(nil); err != nil || !reflect.DeepEqual(o, Options{}) {
		t.Errorf("without flags: %+v, %v", o, err)
	}
	f.FlagUsages() // makes values of its own to find defaults

	// The flags say what the limits do.
	l := fdb.Limits{}.WithDefaults()
	for name, want := range map[string]time.Duration{
		"minimum-recovery-time-for-exclusion": l.Exclusion, "minimum-recovery-time-for-inclusion": l.Inclusion,
		"minimum-recovery-time-for-configuration": l.Configuration, "coordinator-missing-wait": l.CoordinatorMissing,
		"coordinator-undesired-wait": l.CoordinatorUndesired, "minimum-required-uptime-for-cc-bounce": l.ControllerUptime,
		"global-synchronization-wait": l.GlobalSynchronizationWait, "maintenance-list-stale": l.MaintenanceStale,
		"maintenance-list-wait": l.MaintenanceWait, "terminal-pod-age": l.TerminalPodAge, "bounce-sync-wait": l.BounceSyncWait,
	} {
		if got := f.Lookup("fdb-" + name).DefValue; got != short(want) {
			t.Errorf("%s says %s, the limit is %s", name, got, want)
		}
	}
}

func TestFlags(t *testing.T) {
	chosen, err := labels.Parse("team=a,!old")
	if err != nil {
		t.Fatal(err)
	}
	for arguments, want := range map[string]Options{
		"cli-timeout=3":                               {CLITimeout: 3 * time.Second},
		"max-cli-timeout=1m30s":                       {MaxCLITimeout: 90 * time.Second},
		"get-timeout=0.5":                             {GetTimeout: 500 * time.Millisecond},
		"post-timeout=1s":                             {PostTimeout: time.Second},
		"minimum-recovery-time-for-exclusion=90":      {Limits: fdb.Limits{Exclusion: 90 * time.Second}},
		"minimum-recovery-time-for-inclusion=0":       {Limits: fdb.Limits{Inclusion: -1}},
		"minimum-recovery-time-for-configuration=1":   {Limits: fdb.Limits{Configuration: time.Second}},
		"coordinator-missing-wait=1":                  {Limits: fdb.Limits{CoordinatorMissing: time.Second}},
		"coordinator-undesired-wait=1":                {Limits: fdb.Limits{CoordinatorUndesired: time.Second}},
		"minimum-required-uptime-for-cc-bounce=1":     {Limits: fdb.Limits{ControllerUptime: time.Second}},
		"global-synchronization-wait=1":               {Limits: fdb.Limits{GlobalSynchronizationWait: time.Second}},
		"maintenance-list-stale=1":                    {Limits: fdb.Limits{MaintenanceStale: time.Second}},
		"maintenance-list-wait=0s":                    {Limits: fdb.Limits{MaintenanceWait: -1}},
		"terminal-pod-age=1":                          {Limits: fdb.Limits{TerminalPodAge: time.Second}},
		"bounce-sync-wait=1":                          {Limits: fdb.Limits{BounceSyncWait: time.Second}},
		"run-loop-busy-threshold=0.8":                 {Limits: fdb.Limits{RunLoopBusy: 0.8}},
		"exclusion-spare=none":                        {Limits: fdb.Limits{NoExclusionSpare: true}},
		"exclusion-spare=tolerance":                   {},
		"replace-on-security-context-change":          {ReplaceOnSecurityContextChange: true},
		"restart-incompatible-processes=false":        {KeepIncompatibleProcesses: true},
		"restart-incompatible-processes":              {},
		"cache-database-status=0":                     {NoStatusCache: true},
		"tools=/opt/fdb":                              {Tools: "/opt/fdb"},
		"look=5s":                                     {Look: 5 * time.Second},
		"label-selector=team=a,!old":                  {Selector: chosen},
		"adopt=at-once":                               {AdoptAtOnce: true},
		"fix-coordinator-ips":                         {FixCoordinatorIPs: true},
		"allow-host-network=false":                    {Templates: foundationdb.TemplateLimits{NoHostNetwork: true}},
		"allow-host-pid=false":                        {Templates: foundationdb.TemplateLimits{NoHostPID: true}},
		"allow-host-ipc=false":                        {Templates: foundationdb.TemplateLimits{NoHostIPC: true}},
		"allow-automount-service-account-token=false": {Templates: foundationdb.TemplateLimits{NoAccountToken: true}},
		"allowed-service-accounts=a,b":                {Templates: foundationdb.TemplateLimits{ServiceAccounts: []string{"a", "b"}}},
		"allowed-volume-sources=secret --fdb-allowed-volume-sources=configMap": {Templates: foundationdb.TemplateLimits{VolumeSources: []string{"secret", "configMap"}}},
		"allowed-volume-mounts=a": {Templates: foundationdb.TemplateLimits{VolumeMounts: []string{"a"}}},
	} {
		var o Options
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		o.AddFlags(f)
		if err := f.Parse(strings.Fields("--fdb-" + arguments)); err != nil || !reflect.DeepEqual(o, want) {
			t.Errorf("%s: %+v, %v", arguments, o, err)
		}
	}
	for _, argument := range []string{
		"cli-timeout=0", "look=0", "look=-1", "look=soon", "maintenance-list-stale=0", "minimum-recovery-time-for-exclusion=-1", "get-timeout=1e300", "get-timeout=NaN",
		"run-loop-busy-threshold=1.1", "run-loop-busy-threshold=-0.1", "run-loop-busy-threshold=NaN", "exclusion-spare=some", "cache-database-status=perhaps",
		"adopt=true", "tools=", "label-selector=a=b=c", "allowed-volume-sources=a,,b", "allowed-service-accounts=",
	} {
		var o Options
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		o.AddFlags(f)
		if err := f.Parse([]string{"--fdb-" + argument}); err == nil || !reflect.DeepEqual(o, Options{}) {
			t.Errorf("%s: %+v", argument, o)
		}
	}
}
