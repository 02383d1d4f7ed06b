package foundationdb

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// Problem is a field of an object that cannot be as it is, or in a warning one that may not do what is expected.
type Problem struct {
	Path   string `json:"path"` // spec.routing.podIPFamily
	Reason string `json:"reason"`
}

func (p Problem) String() string { return p.Path + ": " + p.Reason }

const (
	maxPrefix   = 43  // characters of processGroupIDPrefix: with class and number an id fits a label
	maxRemovals = 500 // entries of a removal list
)

var (
	controls     = regexp.MustCompile(`[\x00-\x1f\x7f]`)
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	prefixForm   = regexp.MustCompile(`^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?$`)
)

// engineVersions are the first versions that have a storage engine. All others every version has. Source:
// fdb-kubernetes-operator 2.33.0, api/v1beta2/foundationdb_version.go.
var engineVersions = map[string]fdb.Version{
	"ssd-redwood-1":       {Major: 7, Minor: 3},
	"ssd-sharded-rocksdb": {Major: 7, Minor: 2},
}

// Refused returns all problems as one fault; nil if there are none.
func Refused(kind *fault.Kind, problems []Problem) error {
	if len(problems) == 0 {
		return nil
	}
	texts := make([]string, len(problems))
	for i, p := range problems {
		texts[i] = p.String()
	}
	return kind.Errorf("%s", strings.Join(texts, "; "))
}

// problems collects what is wrong.
type problems []Problem

func (p *problems) add(wrong bool, path, format string, args ...any) {
	if wrong {
		*p = append(*p, Problem{Path: path, Reason: fmt.Sprintf(format, args...)})
	}
}

// fails adds an error of another package.
func (p *problems) fails(err error, path string) {
	if err != nil {
		p.add(true, path, "%s", fault.Message(err))
	}
}

// word refuses a text that is given and cannot become part of a command.
func (p *problems) word(form fdb.Word, path, text string) {
	if text != "" {
		p.fails(fdb.CheckWord(form, text), path)
	}
}

// line refuses a text of several lines.
func (p *problems) line(path, text string) {
	p.add(controls.MatchString(text), path, "%q has a line break or another control character", text)
}

func oneOf[T ~string](p *problems, path string, value T, allowed ...T) {
	p.add(value != "" && !slices.Contains(allowed, value), path, "%q is none of %v", value, allowed)
}

// Validate returns all that the operator refuses in a cluster. nil: nothing. It repeats what the API server checks,
// since another operator's CRD may stand there.
func Validate(c *v1beta2.FoundationDBCluster) []Problem {
	var p problems
	s := c.Spec
	p.version(c)
	p.configuration(s)
	p.domains(s)
	p.connection(s)
	p.groups(s)
	p.automation(s.AutomationOptions)

	for _, class := range slices.Sorted(maps.Keys(s.Processes)) {
		p.parameters("spec.processes["+string(class)+"].customParameters", s.Processes[class].CustomParameters)
	}
	for i, selection := range s.CoordinatorSelection {
		p.add(!fdb.Class(selection.ProcessClass).CoordinatorEligible(), fmt.Sprintf("spec.coordinatorSelection[%d].processClass", i),
			"a process of class %q cannot be a coordinator: storage, log, transaction or coordinator", selection.ProcessClass)
	}
	oneOf(&p, "spec.imageType", s.ImageType, v1beta2.ImageTypeSplit, v1beta2.ImageTypeUnified)
	oneOf(&p, "spec.routing.publicIPSource", s.Routing.PublicIPSource, v1beta2.PublicIPPod, v1beta2.PublicIPService)
	family := or(s.Routing.PodIPFamily, 4)
	p.add(family != 4 && family != 6, "spec.routing.podIPFamily", "%d is neither 4 nor 6", family)
	if domain := s.Routing.DNSDomain; domain != "" {
		reasons := validation.IsDNS1123Subdomain(domain)
		p.add(len(reasons) > 0, "spec.routing.dnsDomain", "%q: %s", domain, strings.Join(reasons, ", "))
	}
	minutes := or(s.LockOptions.LockDurationMinutes, defaultLockMinutes)
	p.add(minutes < 1, "spec.lockOptions.lockDurationMinutes", "%d is less than 1", minutes)
	p.line("spec.logGroup", s.LogGroup)
	p.line("spec.mainContainer.peerVerificationRules", s.MainContainer.PeerVerificationRules)
	for i, name := range s.SidecarVariables {
		p.add(!variableName.MatchString(name), fmt.Sprintf("spec.sidecarVariables[%d]", i), "%q is no name of a variable", name)
	}
	return p
}

func (p *problems) version(c *v1beta2.FoundationDBCluster) {
	desired, err := fdb.ParseVersion(c.Spec.Version)
	if err != nil {
		p.fails(err, "spec.version")
		return
	}
	p.add(!desired.Supported(), "spec.version", "%s is not supported: at least 7.1.0, and no release candidate of it", desired)
	if running, err := fdb.ParseVersion(c.Status.RunningVersion); err == nil {
		p.add(!fdb.ChangeOf(running, desired).Allowed, "spec.version", "the database runs %s, whose data %s cannot read", running, desired)
	}
	d := c.Spec.DatabaseConfiguration
	for _, f := range []struct{ name, engine string }{{"storage_engine", d.StorageEngine}, {"perpetual_storage_wiggle_engine", d.PerpetualStorageWiggleEngine}} {
		since := engineVersions[f.engine]
		p.add(desired.Compare(since) < 0, "spec.databaseConfiguration."+f.name, "%q is there from version %s on, and this is %s", f.engine, since, desired)
	}
}

func (p *problems) configuration(s v1beta2.FoundationDBClusterSpec) {
	for _, problem := range ConfigurationOf(s.DatabaseConfiguration).Problems() {
		p.add(true, "spec.databaseConfiguration."+problem.Field, "%s", problem.Message)
	}
}

func (p *problems) domains(s v1beta2.FoundationDBClusterSpec) {
	p.word(fdb.WordDatacenter, "spec.dataCenter", s.DataCenter)
	p.word(fdb.WordZone, "spec.dataHall", s.DataHall)
	p.word(fdb.WordZone, "spec.faultDomain.value", s.FaultDomain.Value)
	from := s.FaultDomain.ValueFrom
	p.line("spec.faultDomain.valueFrom", from)
	p.add(strings.HasPrefix(from, "$") && !variable.MatchString(from), "spec.faultDomain.valueFrom", "%q is no $VARIABLE", from)
	p.add(s.FaultDomain.ZoneCount < 0, "spec.faultDomain.zoneCount", "%d is negative", s.FaultDomain.ZoneCount)
}

func (p *problems) connection(s v1beta2.FoundationDBClusterSpec) {
	parse := func(path, format, value string) {
		if value != "" {
			_, err := fdb.ParseConnection(fmt.Sprintf(format, value))
			p.fails(err, path)
		}
	}
	parse("spec.seedConnectionString", "%s", s.SeedConnectionString)
	partial := s.PartialConnectionString
	parse("spec.partialConnectionString.databaseName", "%s:x@1.1.1.1:1", partial.DatabaseName)
	parse("spec.partialConnectionString.generationID", "x:%s@1.1.1.1:1", partial.GenerationID)
	for i, coordinator := range partial.Coordinators {
		p.fails(fdb.CheckWord(fdb.WordAddress, coordinator), fmt.Sprintf("spec.partialConnectionString.coordinators[%d]", i))
	}
}

func (p *problems) groups(s v1beta2.FoundationDBClusterSpec) {
	prefix := s.ProcessGroupIDPrefix
	p.add(len(prefix) > maxPrefix, "spec.processGroupIDPrefix", "it has %d characters, at most %d", len(prefix), maxPrefix)
	p.add(prefix != "" && !prefixForm.MatchString(prefix), "spec.processGroupIDPrefix",
		"%q is not of letters, digits, hyphens, underscores and dots, with a letter or digit at both ends", prefix)
	p.removals("spec.processGroupsToRemove", s.ProcessGroupsToRemove)
	p.removals("spec.processGroupsToRemoveWithoutExclusion", s.ProcessGroupsToRemoveWithoutExclusion)
}

func (p *problems) removals(path string, ids []v1beta2.ProcessGroupID) {
	p.add(len(ids) > maxRemovals, path, "it names %d groups, at most %d", len(ids), maxRemovals)
	for i, id := range ids {
		if id == "*" {
			p.add(true, fmt.Sprintf("%s[%d]", path, i), "* is refused: name the groups")
			continue
		}
		_, err := fdb.ParseGroupID(string(id))
		p.fails(err, fmt.Sprintf("%s[%d]", path, i))
	}
}

func (p *problems) automation(a v1beta2.AutomationOptions) {
	const path = "spec.automationOptions."
	modes := []v1beta2.PodUpdateMode{v1beta2.PodUpdateAll, v1beta2.PodUpdateZone, v1beta2.PodUpdateProcessGroup, v1beta2.PodUpdateNone}
	oneOf(p, path+"deletionMode", a.DeletionMode, modes...)
	oneOf(p, path+"removalMode", a.RemovalMode, modes...)
	oneOf(p, path+"podUpdateStrategy", a.PodUpdateStrategy, v1beta2.PodUpdateReplace, v1beta2.PodUpdateReplaceTransactionSystem, v1beta2.PodUpdateDelete)
	oneOf(p, path+"synchronizationMode", a.SynchronizationMode, v1beta2.SynchronizationLocal, v1beta2.SynchronizationGlobal)
	if most := a.Replacements.MaxFaultDomainsWithTaintedProcessGroups; most != nil {
		p.add(TaintBudget(v1beta2.FoundationDBClusterSpec{AutomationOptions: a}, 1) == 0, path+"replacements.maxFaultDomainsWithTaintedProcessGroups",
			"%q is neither a number nor a percentage", most.String())
	}
}

// parameters refuses each parameter that cannot stand beside those before it.
func (p *problems) parameters(path string, parameters v1beta2.CustomParameters) {
	var good []string
	for i, parameter := range parameters {
		good = append(good, string(parameter))
		if err := fdb.CheckParameters(good); err != nil {
			p.fails(err, fmt.Sprintf("%s[%d]", path, i))
			good = good[:len(good)-1]
		}
	}
}

// ValidateBackup returns all that the operator refuses in a backup. nil: nothing.
func ValidateBackup(b *v1beta2.FoundationDBBackup) []Problem {
	var p problems
	s := b.Spec
	if version, err := fdb.ParseVersion(s.Version); err != nil {
		p.fails(err, "spec.version")
	} else {
		p.add(!version.Supported(), "spec.version", "%s is not supported: at least 7.1.0, and no release candidate of it", version)
	}
	p.add(s.ClusterName == "", "spec.clusterName", "it is required")
	oneOf(&p, "spec.backupState", s.BackupState, v1beta2.BackupRunning, v1beta2.BackupStopped, v1beta2.BackupPaused)
	oneOf(&p, "spec.backupType", s.BackupType, v1beta2.BackupTypeAgent, v1beta2.BackupTypePartitionedLog, v1beta2.BackupTypeUnmanaged)
	oneOf(&p, "spec.backupMode", s.BackupMode, v1beta2.BackupContinuous, v1beta2.BackupOneTime)
	oneOf(&p, "spec.deletionPolicy", s.DeletionPolicy, v1beta2.BackupDeletionNoop, v1beta2.BackupDeletionStop, v1beta2.BackupDeletionCleanup)
	oneOf(&p, "spec.imageType", s.ImageType, v1beta2.ImageTypeSplit, v1beta2.ImageTypeUnified)
	p.add(or(s.AgentCount, 0) < 0, "spec.agentCount", "%d is negative", or(s.AgentCount, 0))
	period := or(s.SnapshotPeriodSeconds, fdb.DefaultSnapshotPeriod)
	p.add(period < 1, "spec.snapshotPeriodSeconds", "%d is less than 1", period)
	if s.BackupType != v1beta2.BackupTypeUnmanaged {
		p.store(s.BlobStoreConfiguration, b.Name)
	}
	p.word(fdb.WordTag, "spec.tag", s.Tag)
	p.parameters("spec.customParameters", s.CustomParameters)
	p.line("spec.encryptionKeyPath", s.EncryptionKeyPath)
	return p
}

// ValidateRestore returns all that the operator refuses in a restore. nil: nothing.
func ValidateRestore(r *v1beta2.FoundationDBRestore) []Problem {
	var p problems
	s := r.Spec
	p.add(s.DestinationClusterName == "", "spec.destinationClusterName", "it is required")
	for i, keys := range s.KeyRanges {
		path := fmt.Sprintf("spec.keyRanges[%d].", i)
		p.fails(fdb.CheckWord(fdb.WordKey, keys.Start), path+"start")
		p.fails(fdb.CheckWord(fdb.WordKey, keys.End), path+"end")
	}
	p.store(s.BlobStoreConfiguration, r.Name)
	p.word(fdb.WordTag, "spec.tag", s.Tag)
	p.add(or(s.BackupVersion, 0) < 0, "spec.backupVersion", "%d is negative", or(s.BackupVersion, 0))
	p.parameters("spec.customParameters", s.CustomParameters)
	p.line("spec.encryptionKeyPath", s.EncryptionKeyPath)
	return p
}

// store refuses a blob store without a URL.
func (p *problems) store(given *v1beta2.BlobStoreConfiguration, name string) {
	const path = "spec.blobStoreConfiguration"
	if given == nil {
		p.add(true, path, "it is required")
		return
	}
	_, err := fdb.BackupURL(blobStore(*given), name)
	p.fails(err, path)
	n := len(given.Bucket)
	p.add(n > 0 && (n < 3 || n > 63), path+".bucket", "it has %d characters: 3 to 63", n)
}
