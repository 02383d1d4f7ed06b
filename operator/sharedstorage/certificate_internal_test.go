package sharedstorage

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// Since when calls without TLS are refused: at once before there are instances, and for a running cluster ten
// minutes after the last of its processes takes calls over TLS. What was decided stays.
func TestRequiredFrom(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	up := func(name string) port.Instance { return port.Instance{Name: name, State: port.Up} }
	speaks := map[string]port.Status{"a": {TLS: true}, "b": {TLS: true}}
	manager := port.Topology{Present: true, TLS: true}
	for name, c := range map[string]struct {
		facts Facts
		had   string
		want  time.Time
		plain []string
	}{
		"a new cluster":                    {Facts{}, "", now, nil},
		"a manager before there are any":   {Facts{Topology: port.Topology{Present: true}}, "", time.Time{}, []string{"the cluster manager"}},
		"everything":                       {Facts{Instances: []port.Instance{up("a"), up("b")}, Engines: speaks, Topology: manager}, "", now.Add(10 * time.Minute), nil},
		"an agent of an earlier version":   {Facts{Instances: []port.Instance{up("a"), up("c")}, Engines: speaks, Topology: manager}, "", time.Time{}, []string{"instance c"}},
		"a manager of an earlier version":  {Facts{Instances: []port.Instance{up("a")}, Engines: speaks, Topology: port.Topology{Present: true}}, "", time.Time{}, []string{"the cluster manager"}},
		"a pooler of an earlier version":   {Facts{Instances: []port.Instance{up("a")}, Engines: speaks, Topology: manager, Poolers: []port.PoolerStatus{{Name: "p"}}}, "", time.Time{}, []string{"pooler p"}},
		"one that does not answer":         {Facts{Instances: []port.Instance{{Name: "a", State: port.Down}}, Topology: manager}, "", time.Time{}, []string{"instance a"}},
		"a hibernated cluster":             {Facts{Instances: []port.Instance{{Name: "c", State: port.Suspended}}}, "", now.Add(10 * time.Minute), nil},
		"instances that cannot be listed":  {Facts{Unknown: map[string]error{factInstances: errors.New("away")}}, "", time.Time{}, []string{"the instances, which are not known"}},
		"decided, whatever has come since": {Facts{Instances: []port.Instance{up("c")}}, now.Add(-time.Hour).Format(time.RFC3339), now.Add(-time.Hour), []string{"instance c"}},
	} {
		cluster := &Cluster{Facts: &c.facts}
		plain := cluster.plain()
		if got := requiredFrom(cluster, plain, map[string][]byte{port.RequiredFromFile: []byte(c.had)}, now); !got.Equal(c.want) || !slices.Equal(plain, c.plain) {
			t.Errorf("%s: from %s, want %s; plain %q", name, got, c.want, plain)
		}
	}
}

// memoryCertificates keep certificates in memory.
type memoryCertificates map[CertificateRole]map[string][]byte

func (k memoryCertificates) Names(context.Context, port.Ref) ([]string, error) {
	return []string{"blue-rw"}, nil
}
func (k memoryCertificates) Given(context.Context, port.Ref, v1alpha1.TLSSpec) (map[string][]byte, error) {
	return nil, port.CertificateInvalid.Errorf("there is none")
}
func (k memoryCertificates) Revision(context.Context, port.Ref, v1alpha1.TLSSpec) string { return "" }
func (k memoryCertificates) Load(_ context.Context, _ port.Ref, role CertificateRole) (map[string][]byte, error) {
	return maps.Clone(k[role]), nil
}
func (k memoryCertificates) Store(_ context.Context, _ port.Ref, role CertificateRole, files map[string][]byte) error {
	k[role] = maps.Clone(files)
	return nil
}

// The certificate of agents is renewed by the same authority at once, and changes to that of a new authority when
// everybody has had the time to read it. A certificate that was given and cannot be used holds up none of it.
func TestTheCertificateOfAgents(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	k, cluster := memoryCertificates{}, &Cluster{Facts: &Facts{}, Spec: v1alpha1.SharedStorageClusterSpec{TLS: &v1alpha1.TLSSpec{Secret: "none", Require: true}}}
	ensure := func() (files map[string][]byte) {
		t.Helper()
		d := &certificateFact{}
		if err := d.ensure(t.Context(), k, cluster, now); !errors.Is(err, port.CertificateInvalid) {
			t.Fatal(err)
		}
		files = k[ServerCertificate]
		if err := usable(map[string][]byte{certificateFile: files[port.AgentCertificateFile], keyFile: files[port.AgentKeyFile], authorityFile: files[port.AgentTrustFile]}, now); err != nil {
			t.Fatal(err)
		}
		return files
	}
	first := ensure()
	if string(first[port.RequiredFromFile]) != now.Format(time.RFC3339) || string(first[port.ClientsFile]) != clientsOptional {
		t.Errorf("required from %s, clients %s, which engines without a certificate could not serve", first[port.RequiredFromFile], first[port.ClientsFile])
	}
	same := func(a, b map[string][]byte) bool {
		return bytes.Equal(a[port.AgentCertificateFile], b[port.AgentCertificateFile])
	}
	if !same(first, ensure()) {
		t.Error("made anew without a reason")
	}
	now = now.Add(certificateLife/3*2 + time.Hour)
	second := ensure()
	if same(first, second) {
		t.Error("not renewed")
	}
	delete(k, Authority) // somebody has
	third := ensure()
	if !same(second, third) || bytes.Equal(second[port.AgentTrustFile], third[port.AgentTrustFile]) {
		t.Error("the certificate of a new authority is used before anybody knows that authority")
	}
	now = now.Add(conversionTime)
	if fourth := ensure(); same(third, fourth) || !bytes.Equal(third[port.AgentTrustFile], fourth[port.AgentTrustFile]) {
		t.Error("the certificate of a new authority is not used")
	}
	cluster.Spec.TLS = &v1alpha1.TLSSpec{Require: true}
	d := &certificateFact{}
	if err := d.ensure(t.Context(), k, cluster, now); err != nil || string(k[ServerCertificate][port.ClientsFile]) != port.ClientsRequire {
		t.Errorf("%v, clients %s", err, k[ServerCertificate][port.ClientsFile])
	}
}
