package foundationdb

import (
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// argument is one argument of a server as the launcher reads it. Source: foundationdb 7.3.69,
// fdbkubernetesmonitor/api/config.go.
type argument struct {
	Type       argumentType `json:"type,omitempty"`
	Value      string       `json:"value,omitempty"`
	Values     []argument   `json:"values,omitempty"` // of concatenate
	Source     string       `json:"source,omitempty"` // the name of a variable
	Multiplier int          `json:"multiplier,omitempty"`
	Offset     int          `json:"offset,omitempty"`
	IPFamily   int          `json:"ipFamily,omitempty"`
}

type argumentType string

const (
	literal       argumentType = ""
	concatenate   argumentType = "Concatenate"
	environment   argumentType = "Environment"
	processNumber argumentType = "ProcessNumber" // number * multiplier + offset
	ipList        argumentType = "IPList"        // the first IP of the family in a variable's list
)

var (
	serverNumber = argument{Type: processNumber}
	variable     = regexp.MustCompile(`^\$[A-Za-z_][A-Za-z0-9_]*$`)
)

func text(value string) argument { return argument{Value: value} }

func env(name string) argument { return argument{Type: environment, Source: name} }

func joined(values ...argument) argument { return argument{Type: concatenate, Values: values} }

// expand returns the argument of a server, the first being number 1. A variable that is not known stays $NAME.
func (a argument) expand(number int, variables map[string]string) (string, error) {
	switch a.Type {
	case concatenate:
		var b strings.Builder
		for _, part := range a.Values {
			s, err := part.expand(number, variables)
			if err != nil {
				return "", err
			}
			b.WriteString(s)
		}
		return b.String(), nil
	case processNumber:
		return strconv.Itoa(number*max(1, a.Multiplier) + a.Offset), nil
	case environment, ipList:
		value, known := variables[a.Source]
		switch {
		case !known:
			return "$" + a.Source, nil
		case a.Type == environment:
			return value, nil
		}
		for ip := range strings.SplitSeq(value, ",") {
			if parsed, err := netip.ParseAddr(ip); err == nil && parsed.Unmap().Is4() == (a.IPFamily == 4) {
				return ip, nil
			}
		}
		return "", SpecInvalid.Errorf("spec.routing.podIPFamily: %s is %q and has no IPv%d", a.Source, value, a.IPFamily)
	}
	return a.Value, nil
}

// template has the arguments of all servers of a class.
func template(c *v1beta2.FoundationDBCluster, class fdb.Class, image v1beta2.ImageType, servers int) []argument {
	spec := c.Spec
	unified := image == v1beta2.ImageTypeUnified
	arguments := []argument{
		text("--cluster_file=/var/fdb/data/fdb.cluster"),
		text("--seed_cluster_file=/var/dynamic-conf/fdb.cluster"),
		addressArgument(c, "public_address", envPublicIP, unified),
		text("--class=" + string(class)),
		text("--logdir=/var/log/fdb-trace-logs"),
		text("--loggroup=" + either(spec.LogGroup, c.Name)),
	}
	if unified || servers > 1 {
		arguments = append(arguments,
			joined(text("--datadir=/var/fdb/data/"), serverNumber),
			joined(text("--locality_process_id="), env(envInstance), text("-"), serverNumber))
	} else {
		arguments = append(arguments, text("--datadir=/var/fdb/data"))
	}
	zone := envZone
	if variable.MatchString(spec.FaultDomain.ValueFrom) {
		zone = spec.FaultDomain.ValueFrom[1:]
	}
	arguments = append(arguments,
		joined(text("--locality_instance_id="), env(envInstance)),
		joined(text("--locality_machineid="), env(envMachine)),
		joined(text("--locality_zoneid="), env(zone)))

	if listens(spec) && c.Status.HasListenIPsForAllPods {
		arguments = append(arguments, addressArgument(c, "listen_address", envPodIP, unified))
	}
	if rules := spec.MainContainer.PeerVerificationRules; rules != "" {
		arguments = append(arguments, text("--tls_verify_peers="+rules))
	}

	given := map[string]bool{}
	for _, p := range settingsOf(spec, class).CustomParameters {
		name, value, _ := strings.Cut(string(p), "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		given[strings.ReplaceAll(name, "-", "_")] = true
		arguments = append(arguments, joined(text("--"+name+"="), customValue(spec, value, unified)))
	}
	if spec.DataCenter != "" && !given["locality_dcid"] {
		arguments = append(arguments, text("--locality_dcid="+spec.DataCenter))
	}
	if spec.DataHall != "" && !given["locality_data_hall"] {
		arguments = append(arguments, text("--locality_data_hall="+spec.DataHall))
	}
	if DefinesDNS(spec) {
		arguments = append(arguments, joined(text("--locality_dns_name="), env(envDNSName)))
	}
	return arguments
}

// customValue is the value of a custom parameter: a text, or a variable.
func customValue(spec v1beta2.FoundationDBClusterSpec, value string, unified bool) argument {
	if !variable.MatchString(value) {
		return text(value)
	}
	if name := value[1:]; name != envPublicIP && name != envPodIP || !unified {
		return env(name)
	}
	return ipArgument(spec, value[1:], true)
}

// ipArgument is the IP in a variable: the launcher has a list of IPs where the family is given.
func ipArgument(spec v1beta2.FoundationDBClusterSpec, name string, unified bool) argument {
	if family := or(spec.Routing.PodIPFamily, 0); family != 0 && unified {
		return argument{Type: ipList, Source: name, IPFamily: family}
	}
	return env(name)
}

// addressArgument gives the addresses of a server: that with TLS first. The launcher has IPs without brackets,
// the sidecar puts them around those that need them.
func addressArgument(c *v1beta2.FoundationDBCluster, name, source string, unified bool) argument {
	left, right := "", ""
	if unified {
		left, right = "[", "]"
	}
	values := []argument{text("--" + name + "=" + left)}
	for i, a := range fdb.AddressesOf("$"+source, requiredAddresses(c), 0) {
		if i > 0 {
			values = append(values, text(","+left))
		}
		values = append(values, ipArgument(c.Spec, source, unified), text(right+":"), argument{Type: processNumber, Multiplier: 2, Offset: a.Port})
		if a.TLS {
			values = append(values, text(":tls"))
		}
	}
	return joined(values...)
}

// requiredAddresses returns the kinds of addresses that servers listen on: those of the status, and before there
// is one, those of the spec.
func requiredAddresses(c *v1beta2.FoundationDBCluster) fdb.Required {
	r := fdb.Required(c.Status.RequiredAddresses)
	if !r.TLS && !r.NonTLS {
		r.TLS, r.NonTLS = c.Spec.MainContainer.EnableTLS, !c.Spec.MainContainer.EnableTLS
	}
	return r
}
