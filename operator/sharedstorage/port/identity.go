package port

import "net/url"

// Identity is who an agent, a cluster manager or the poolers of a cluster are, whatever their address. It is a
// name in their certificate, by which callers verify that they reach the one they mean. The zero value is nobody in
// particular.
type Identity struct{ namespace, cluster, role, name string }

// InstanceIdentity returns that of the agent of id.Instance.
func InstanceIdentity(id Ref) Identity {
	return Identity{id.Namespace, id.Name, "instance", id.Instance}
}

// ManagerIdentity returns that of the cluster manager.
func ManagerIdentity(c Ref) Identity { return Identity{c.Namespace, c.Name, "manager", ""} }

// PoolerIdentity returns that of the poolers, which have one in common: they are replicas.
func PoolerIdentity(c Ref) Identity { return Identity{c.Namespace, c.Name, "pooler", ""} }

// URL returns it as it is in a certificate: pawl://<namespace>/<cluster>/instance/<name>, …/manager or …/pooler; nil:
// that of nobody.
func (i Identity) URL() *url.URL {
	if i == (Identity{}) {
		return nil
	}
	at := &url.URL{Scheme: "pawl", Host: i.namespace, Path: "/" + i.cluster + "/" + i.role}
	if i.name != "" {
		at.Path += "/" + i.name
	}
	return at
}

// String returns the text of URL.
func (i Identity) String() string {
	if at := i.URL(); at != nil {
		return at.String()
	}
	return ""
}

// Files returns the names of the files of its certificate and key.
func (i Identity) Files() (certificate, key string) {
	name := IdentityPrefix + i.role
	if i.name != "" {
		name += "." + i.name
	}
	return name + ".crt", name + ".key"
}
