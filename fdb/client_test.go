package fdb_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/fdb"
	"pgregory.net/rapid"
)

func supported(version string, clients ...any) tree {
	return tree{"client_version": version, "protocol_version": "fdb00b07x", "count": 9, "max_protocol_count": len(clients), "max_protocol_clients": clients}
}

func connected(address, group string) tree { return tree{"address": address, "log_group": group} }

func TestUnsupportedClients(t *testing.T) {
	const versions = "cluster/clients/supported_versions"
	app := connected("10.1.0.1:4000", "app")
	for _, c := range []struct {
		name   string
		doc    func(tree)
		target string
		want   string
	}{
		{"the same version", setting(versions, []any{supported("7.3.69", app)}), "7.3.69", ""},
		{"the same protocol, older", setting(versions, []any{supported("7.3.1", app)}), "7.3.69", ""},
		{"the same protocol, newer", setting(versions, []any{supported("7.3.79", app)}), "7.3.69", ""},
		{"a newer protocol", setting(versions, []any{supported("7.4.6", app)}), "7.3.69", ""},
		{"an older protocol", setting(versions, []any{supported("7.3.69", app)}), "7.4.6", "10.1.0.1:4000 (app) with at most 7.3.69"},
		{"a release candidate", setting(versions, []any{supported("7.4.0-rc1", app)}), "7.4.0", "10.1.0.1:4000 (app) with at most 7.4.0-rc1"},
		{"older libraries beside a newer one", setting(versions, []any{supported("7.4.6", app), tree{"client_version": "7.1.67", "protocol_version": "fdb00b071", "connected_clients": []any{app}}}), "7.4.6", ""},
		{"an unknown protocol", setting(versions, []any{tree{"client_version": "6.0.0", "protocol_version": "Unknown", "max_protocol_clients": []any{app}}}), "7.4.6", ""},
		{"a version that cannot be read", setting(versions, []any{supported("Unknown", app)}), "7.4.6", "10.1.0.1:4000 (app) with at most Unknown"},
		{"an ignored group", setting(versions, []any{supported("7.3.69", connected("10.1.0.1:4000", "fdb-kubernetes-operator"), connected("10.1.0.2:4000", "pawl"))}), "7.4.6", ""},
		{"a client in a server's pod", setting(versions, []any{supported("7.3.69", connected("10.0.0.3:9999", "app"))}), "7.4.6", ""},
		{"a client in a pod that does not report", setting(versions, []any{supported("7.3.69", connected("10.0.8.8:9999", "app"), connected("[fd00::8]:9999:tls", "app"))}), "7.4.6", ""},
		{"an address that cannot be read", setting(versions, []any{supported("7.3.69", connected("?", ""))}), "7.4.6", "? with at most 7.3.69"},
		{"two, one twice", setting(versions, []any{supported("7.3.69", connected("10.1.0.2:1", "b"), app, app)}), "7.4.6", "10.1.0.1:4000 (app) with at most 7.3.69; 10.1.0.2:1 (b) with at most 7.3.69"},
		{"clients that are only counted", setting(versions, []any{tree{"client_version": "7.3.69", "protocol_version": "x", "max_protocol_count": 2}}), "7.4.6", "clients that the status does not name with at most 7.3.69"},
		{"no clients", setting("cluster/clients", tree{"count": 0}), "7.4.6", ""},
		{"clients without versions", setting("cluster/clients", tree{"count": 3}), "7.4.6", "clients that the status does not name"},
		{"no count", setting("cluster/clients", tree{}), "7.4.6", "clients that the status does not name"},
		{"nothing of clients", func(doc tree) { take(doc, "cluster/clients") }, "7.4.6", "clients that the status does not name"},
	} {
		doc := document(sample())
		c.doc(doc)
		target, err := fdb.ParseVersion(c.target)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, client := range fdb.UnsupportedClients(parse(t, doc), target, []string{"fdb-kubernetes-operator", "pawl"}, []string{"10.0.8.8", "[fd00::8]:4501", "?"}) {
			got = append(got, client.String())
		}
		if strings.Join(got, "; ") != c.want {
			t.Errorf("%s: %q instead of %q", c.name, got, c.want)
		}
	}
	if got := fdb.UnsupportedClients(nil, now73, nil, nil); len(got) != 1 {
		t.Errorf("without a status: %v", got)
	}
}

// TestUnsupportedClientsWithLess: a client that holds an upgrade back does so, named or not, when any
// member of the document is missing.
func TestUnsupportedClientsWithLess(t *testing.T) {
	doc := document(lean())
	for _, path := range members(doc, "") {
		if path == "cluster/clients/supported_versions/0/max_protocol_count" {
			continue
		}
		back := take(doc, path)
		if got := fdb.UnsupportedClients(parse(t, doc), fdb.Version{Major: 7, Minor: 4, Patch: 6}, []string{"pawl"}, nil); len(got) == 0 {
			t.Errorf("none without %s", path)
		}
		back()
	}
}

// TestUnsupportedClientsSpeaks: who is named speaks an older protocol than the target; who is not, and
// is no server and not ignored, speaks it.
func TestUnsupportedClientsSpeaks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		version := rapid.Custom(func(t *rapid.T) fdb.Version {
			return fdb.Version{Major: 7, Minor: rapid.IntRange(1, 4).Draw(t, "minor"), Patch: rapid.IntRange(0, 2).Draw(t, "patch")}
		})
		target := version.Draw(t, "target")
		clients := &fdb.Clients{}
		versions := map[string]fdb.Version{}
		for i := range rapid.IntRange(0, 5).Draw(t, "clients") {
			v := version.Draw(t, "version")
			address := fmt.Sprintf("10.1.0.%d:4000", i)
			versions[address] = v
			clients.SupportedVersions = append(clients.SupportedVersions, fdb.SupportedVersion{ClientVersion: v.String(), MaxProtocolClients: []fdb.ConnectedClient{{Address: address}}})
		}
		s := &fdb.Status{Cluster: fdb.ClusterStatus{Clients: clients}}
		if clients.SupportedVersions == nil {
			clients.Count = new(0)
		}
		named := map[string]bool{}
		for _, c := range fdb.UnsupportedClients(s, target, nil, nil) {
			named[c.Address] = true
		}
		for address, v := range versions {
			if speaks := v.Minor >= target.Minor; named[address] == speaks {
				t.Fatalf("%s with %s is named: %t, the target is %s", address, v, named[address], target)
			}
		}
	})
}
