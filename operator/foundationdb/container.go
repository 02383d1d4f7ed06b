package foundationdb

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// sidecarPort is where the sidecar of the split image listens.
const sidecarPort = 8080

// containerBuilder fills in the containers of a group's pod.
type containerBuilder struct {
	c       *v1beta2.FoundationDBCluster
	id      fdb.GroupID
	version string // of the main container
}

// unifiedMain: the launcher, which starts the servers.
func (b containerBuilder) unifiedMain(c *corev1.Container) {
	spec := b.c.Spec
	extend(c, valueEnv(envClusterFile, dynamicPath+"/"+clusterFile))
	if len(spec.TrustedCAs) > 0 {
		extend(c, valueEnv(envCAFile, dynamicPath+"/"+caFile))
	}
	c.Args = []string{"--input-dir", dynamicPath, "--log-path", logPath + "/monitor.log"}
	forget(c, b.id.Class.ServersVariable(), envProcessCount)
	if servers := ServersPerPod(spec, b.id.Class); servers > 1 {
		c.Args = append(c.Args, "--process-count", strconv.Itoa(servers))
		extend(c, valueEnv(b.id.Class.ServersVariable(), strconv.Itoa(servers)))
	}
	mount(c, dataVolume, dataPath)
	mount(c, configVolume, dynamicPath)
	mount(c, binariesVolume, binariesPath)
	mount(c, logVolume, logPath)
	extend(c,
		fieldEnv(envPodName, "metadata.name"), fieldEnv(envNamespace, "metadata.namespace"),
		valueEnv(envLogGroup, b.logGroup()), valueEnv(envTrace, logPath),
		fieldEnv(envNode, "spec.nodeName"))
	forget(c, envInstance)
	extend(c, b.substitutions()...)
	extend(c, b.dnsName()...)
	if b.crashes(MainContainer) {
		c.Command, c.Args = []string{crashLoop}, []string{crashLoop}
	}
}

// unifiedSidecar: it copies the programs of its version, if that is not the launcher's.
func (b containerBuilder) unifiedSidecar(c *corev1.Container) {
	c.Args = []string{
		"--mode", "sidecar", "--output-dir", binariesPath, "--main-container-version", b.version,
		"--copy-binary", "fdbserver", "--copy-binary", "fdbcli", "--log-path", logPath + "/monitor.log",
	}
	mount(c, binariesVolume, binariesPath)
	mount(c, logVolume, logPath)
	if b.crashes(SidecarContainer) {
		c.Command, c.Args = []string{crashLoop}, []string{crashLoop}
	}
}

// splitMain: fdbmonitor, which starts the servers.
func (b containerBuilder) splitMain(c *corev1.Container) {
	extend(c, valueEnv(envClusterFile, dynamicPath+"/"+clusterFile))
	if len(b.c.Spec.TrustedCAs) > 0 {
		extend(c, valueEnv(envCAFile, dynamicPath+"/"+caFile))
	}
	command := "fdbmonitor --conffile " + dynamicPath + "/fdbmonitor.conf --lockfile " + dynamicPath + "/fdbmonitor.lockfile" +
		" --loggroup " + shellWord(b.logGroup()) + " >> " + logPath + "/fdbmonitor-$(date '+%Y-%m-%d').log 2>&1"
	if b.crashes(MainContainer) {
		command = crashLoop
	}
	c.Command, c.Args = []string{"sh", "-c"}, []string{command}
	mount(c, dataVolume, dataPath)
	mount(c, dynamicVolume, dynamicPath)
	mount(c, logVolume, logPath)
}

// splitInit: it copies the files once, before the others start.
func (b containerBuilder) splitInit(c *corev1.Container) {
	b.copier(c, "--init-mode")
	if b.crashes(InitContainer) {
		c.Args = []string{crashLoop}
	}
}

// splitSidecar: it copies the files when it is asked to.
func (b containerBuilder) splitSidecar(c *corev1.Container) {
	overrides := b.c.Spec.SidecarContainer
	var tls []string
	if overrides.EnableTLS {
		tls = []string{"--tls"}
	}
	b.copier(c, tls...)
	if b.crashes(SidecarContainer) {
		c.Args = []string{crashLoop}
	}
	// No HTTP: with TLS, the sidecar asks for the certificate of its client.
	probe := corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(sidecarPort)}}
	if c.LivenessProbe == nil && or(overrides.EnableLivenessProbe, true) {
		c.LivenessProbe = &corev1.Probe{ProbeHandler: probe, TimeoutSeconds: 1, PeriodSeconds: 30, FailureThreshold: 5}
	}
	if c.ReadinessProbe == nil && or(overrides.EnableReadinessProbe, false) {
		c.ReadinessProbe = &corev1.Probe{ProbeHandler: *probe.DeepCopy()}
	}
	extend(c, valueEnv(envVerifyPeers, overrides.PeerVerificationRules))
	if len(b.c.Spec.TrustedCAs) > 0 {
		extend(c, valueEnv(envCAFile, inputPath+"/"+caFile))
	}
	forget(c, b.id.Class.ServersVariable())
	if servers := ServersPerPod(b.c.Spec, b.id.Class); servers > 1 {
		extend(c, valueEnv(b.id.Class.ServersVariable(), strconv.Itoa(servers)))
	}
}

// copier is what sidecar and init container of the split image have in common.
func (b containerBuilder) copier(c *corev1.Container, last ...string) {
	spec := b.c.Spec
	args := []string{"--copy-file", clusterFile}
	if len(spec.TrustedCAs) > 0 {
		args = append(args, "--copy-file", caFile)
	}
	args = append(args, "--input-monitor-conf", "fdbmonitor.conf", "--copy-binary", "fdbserver", "--copy-binary", "fdbcli", "--main-container-version", b.version)
	if family := or(spec.Routing.PodIPFamily, 0); family != 0 {
		args = append(args, "--public-ip-family", strconv.Itoa(family))
		if family == 6 {
			args = append(args, "--bind-address", "[::]:"+strconv.Itoa(sidecarPort))
		}
	}
	if listens(spec) {
		args = append(args, "--substitute-variable", envPodIP)
	}
	for _, name := range spec.SidecarVariables {
		args = append(args, "--substitute-variable", name)
	}
	if b.named() {
		args = append(args, "--substitute-variable", envDNSName)
	}
	args = append(args, last...)
	c.Args = args
	forget(c, envInstance)
	extend(c, b.substitutions()...)
	extend(c, b.dnsName()...)
	mount(c, configVolume, inputPath)
	mount(c, dynamicVolume, outputPath)
}

// substitutions are the variables that the files of servers use.
func (b containerBuilder) substitutions() []corev1.EnvVar {
	spec := b.c.Spec
	podIP := "status.podIP"
	if or(spec.Routing.PodIPFamily, 0) != 0 {
		podIP = "status.podIPs"
	}
	publicIP := podIP
	if publicIPSource(spec) == v1beta2.PublicIPService {
		publicIP = "metadata.annotations['" + PublicIPAnnotation + "']"
	}
	list := []corev1.EnvVar{fieldEnv(envPublicIP, publicIP)}
	if listens(spec) {
		list = append(list, fieldEnv(envPodIP, podIP))
	}
	from := either(spec.FaultDomain.ValueFrom, "spec.nodeName")
	switch spec.FaultDomain.Key {
	case noDomain:
		list = append(list, fieldEnv(envMachine, "metadata.name"), fieldEnv(envZone, "metadata.name"))
	case kubernetesClusterDomain:
		list = append(list, fieldEnv(envMachine, "spec.nodeName"), valueEnv(envZone, spec.FaultDomain.Value))
	default:
		list = append(list, fieldEnv(envMachine, "spec.nodeName"))
		if !strings.HasPrefix(from, "$") { // else the variable is the zone
			list = append(list, fieldEnv(envZone, from))
		}
	}
	return append(list, valueEnv(envInstance, b.id.String()))
}

// named reports whether the pod knows its DNS name.
func (b containerBuilder) named() bool { return DefinesDNS(b.c.Spec) || holdsNames(b.c) }

func (b containerBuilder) dnsName() []corev1.EnvVar {
	if !b.named() {
		return nil
	}
	return []corev1.EnvVar{valueEnv(envDNSName, DNSName(b.c, b.id))}
}

// DNSName is the name of a group's pod.
func DNSName(c *v1beta2.FoundationDBCluster, id fdb.GroupID) string {
	return strings.Join([]string{PodName(c, id), c.Name, c.Namespace, "svc", either(c.Spec.Routing.DNSDomain, defaultDNSDomain)}, ".")
}

// DNSNameOf is the name of a group's pod; empty where names are not used.
func DNSNameOf(c *v1beta2.FoundationDBCluster, group v1beta2.ProcessGroupID) string {
	id, err := fdb.ParseGroupID(string(group))
	if err != nil || !DefinesDNS(c.Spec) {
		return ""
	}
	return DNSName(c, id)
}

func (b containerBuilder) logGroup() string { return either(b.c.Spec.LogGroup, b.c.Name) }

// crashes reports whether buggify names a container of the group.
func (b containerBuilder) crashes(container string) bool { return Crashes(b.c.Spec, b.id, container) }

// extend adds variables that the template of the container does not name.
func extend(c *corev1.Container, variables ...corev1.EnvVar) {
	for _, v := range variables {
		if !slices.ContainsFunc(c.Env, func(given corev1.EnvVar) bool { return given.Name == v.Name }) {
			c.Env = append(c.Env, v)
		}
	}
}

// forget removes what a template says about variables that the operator must know: the id, by which it finds the
// processes of the group, and the number of servers.
func forget(c *corev1.Container, names ...string) {
	c.Env = slices.DeleteFunc(c.Env, func(given corev1.EnvVar) bool { return slices.Contains(names, given.Name) })
}

// listens reports whether servers are told the address to listen on.
func listens(spec v1beta2.FoundationDBClusterSpec) bool {
	return publicIPSource(spec) == v1beta2.PublicIPService || or(spec.UseExplicitListenAddress, true)
}

func valueEnv(name, value string) corev1.EnvVar { return corev1.EnvVar{Name: name, Value: value} }

func fieldEnv(name, path string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
}

// shellWord quotes a text for sh, if it needs quotes.
func shellWord(text string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.:/", r)
	}
	if text != "" && strings.IndexFunc(text, func(r rune) bool { return !plain(r) }) < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
