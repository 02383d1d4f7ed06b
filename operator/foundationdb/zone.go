package foundationdb

import (
	"cmp"
	"encoding/json"
	"maps"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// Zone returns the zone of a pod's servers: what the pod's own variable says, which a template may have set. Empty:
// it is not known yet, as the pod has no node, or the launcher has not told its variables.
func Zone(c *v1beta2.FoundationDBCluster, pod *corev1.Pod) string {
	domain := c.Spec.FaultDomain
	if variable.MatchString(domain.ValueFrom) {
		return Variables(c, fdb.GroupID{}, pod)[domain.ValueFrom[1:]]
	}
	told, _ := ToldVariables(pod)
	if zone := cmp.Or(told[envZone], environmentOf(pod)[envZone]); zone != "" {
		return zone
	}
	switch domain.Key {
	case noDomain:
		return pod.Name
	case kubernetesClusterDomain:
		return domain.Value
	}
	return pod.Spec.NodeName
}

// Variables returns the variables with which the files of a group's pod are filled in, as its containers give them
// and, for the unified image, as its launcher tells. Those whose value only the container knows (of secrets, of the
// node's labels before the launcher has told them) are missing. Source: foundationdb 7.3.69,
// packaging/docker/sidecar.py, Config, and fdbkubernetesmonitor/kubernetes.go, updateAnnotations.
func Variables(c *v1beta2.FoundationDBCluster, id fdb.GroupID, pod *corev1.Pod) map[string]string {
	if ImageTypeOf(pod) == v1beta2.ImageTypeUnified {
		variables := environmentOf(pod)
		variables[envBinaryDir] = launcherBinaries(c, pod)
		withID(variables, id)
		told, _ := ToldVariables(pod)
		maps.Copy(variables, told)
		return variables
	}

	environment := environmentOf(pod)
	withID(environment, id)
	variables := map[string]string{}
	for _, name := range []string{envPublicIP, envMachine, envZone, envInstance, envPodIP} {
		variables[name] = environment[name]
	}
	variables[envMachine] = cmp.Or(variables[envMachine], pod.Spec.Hostname, pod.Name)
	variables[envZone] = cmp.Or(variables[envZone], variables[envMachine])
	variables[envPublicIP] = cmp.Or(variables[envPublicIP], variables[envPodIP], pod.Status.PodIP)
	var args []string
	if sidecar := containerOf(pod.Spec.Containers, SidecarContainer); sidecar != nil {
		args = sidecar.Args
	}
	if family := argumentOf(args, "--public-ip-family"); family != "" {
		for _, name := range []string{envPublicIP, envPodIP} {
			variables[name] = firstOf(variables[name], family)
		}
	}
	variables[envBinaryDir] = sidecarBinaries(c, pod, args)
	for i, arg := range args {
		if arg == "--substitute-variable" && i+1 < len(args) {
			name := args[i+1]
			_, already := variables[name]
			if value, known := environment[name]; known && !already {
				variables[name] = value
			}
		}
	}
	return variables
}

// ToldVariables returns the variables in use that the launcher of the unified image has told, and whether it has.
func ToldVariables(pod *corev1.Pod) (map[string]string, bool) {
	var variables map[string]string
	if json.Unmarshal([]byte(pod.Annotations[LauncherEnvironmentAnnotation]), &variables) != nil || variables == nil {
		return nil, false
	}
	return variables, true
}

func withID(variables map[string]string, id fdb.GroupID) {
	if variables[envInstance] == "" && id != (fdb.GroupID{}) {
		variables[envInstance] = id.String()
	}
}

// firstOf returns the first IP of a family in a list; the sidecar puts IPv6 into brackets.
func firstOf(list, family string) string {
	for ip := range strings.SplitSeq(list, ",") {
		switch of := familyOf(ip); {
		case of == 4 && family == "4":
			return ip
		case of == 6 && family == "6":
			return "[" + ip + "]"
		}
	}
	return ""
}

// launcherBinaries is the folder of the programs that the launcher starts. Source: foundationdb 7.3.69,
// fdbkubernetesmonitor/monitor.go, readConfiguration.
func launcherBinaries(c *v1beta2.FoundationDBCluster, pod *corev1.Pod) string {
	own, err := versionOf(pod, MainContainer)
	desired, err2 := fdb.ParseVersion(c.Spec.Version)
	if err == nil && err2 == nil && !desired.ProtocolCompatible(own) {
		return binariesPath + "/bin/" + desired.String()
	}
	return "/usr/bin"
}

// sidecarBinaries is the folder of the programs that fdbmonitor starts: the main container's own, or those that a
// sidecar of another version has copied.
func sidecarBinaries(c *v1beta2.FoundationDBCluster, pod *corev1.Pod, args []string) string {
	own, err := versionOf(pod, SidecarContainer)
	if err != nil {
		own, err = fdb.ParseVersion(c.Spec.Version)
	}
	if main := argumentOf(args, "--main-container-version"); err == nil && main != "" && main != own.String() {
		return dynamicPath + "/bin/" + own.String()
	}
	return "/usr/bin"
}

// versionOf reads the version of a container from the tag of its image.
func versionOf(pod *corev1.Pod, container string) (fdb.Version, error) {
	image := ""
	if c := containerOf(pod.Spec.Containers, container); c != nil {
		image = c.Image
	}
	return fdb.ParseVersion(image[strings.LastIndex(image, ":")+1:])
}

// environmentOf returns the variables whose value the pod tells, of the container with whose variables the files are
// filled in.
func environmentOf(pod *corev1.Pod) map[string]string {
	variables := map[string]string{}
	c := substituting(pod)
	if c == nil {
		return variables
	}
	for _, v := range c.Env {
		switch {
		case v.ValueFrom == nil:
			variables[v.Name] = expandVariables(v.Value, variables)
		case v.ValueFrom.FieldRef != nil:
			delete(variables, v.Name)
			if value := fieldOf(pod, v.ValueFrom.FieldRef.FieldPath); value != "" {
				variables[v.Name] = value
			}
		default:
			delete(variables, v.Name)
		}
	}
	return variables
}

var reference = regexp.MustCompile(`\$\$|\$\([^()]*\)`)

// expandVariables replaces $(NAME) as the kubelet does: $$ stands for $, and a name that is not known stays.
func expandVariables(text string, variables map[string]string) string {
	return reference.ReplaceAllStringFunc(text, func(found string) string {
		if found == "$$" {
			return "$"
		}
		if value, known := variables[found[2:len(found)-1]]; known {
			return value
		}
		return found
	})
}

// fieldOf returns the field of a pod that a variable refers to. Empty: it has none, or it is none that variables may
// have.
func fieldOf(pod *corev1.Pod, path string) string {
	switch path {
	case "metadata.name":
		return pod.Name
	case "metadata.namespace":
		return pod.Namespace
	case "metadata.uid":
		return string(pod.UID)
	case "spec.nodeName":
		return pod.Spec.NodeName
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName
	case "status.podIP":
		return pod.Status.PodIP
	case "status.podIPs":
		return strings.Join(podIPs(pod), ",")
	case "status.hostIP":
		return pod.Status.HostIP
	}
	for prefix, values := range map[string]map[string]string{"metadata.labels['": pod.Labels, "metadata.annotations['": pod.Annotations} {
		if rest, ok := strings.CutPrefix(path, prefix); ok {
			return values[strings.TrimSuffix(rest, "']")]
		}
	}
	return ""
}
