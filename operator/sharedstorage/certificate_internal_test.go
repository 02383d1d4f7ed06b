package sharedstorage

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// Since when calls without TLS are refused: at once before there are instances, and for a running cluster ten
// minutes after the last of its processes takes calls over TLS. What was decided stays.
func TestSinceWhenTLSIsRequired(t *testing.T) {
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
		had := map[string][]byte{port.RequiredFromFile: []byte(c.had)}
		if got := since(cluster, port.RequiredFromFile, plain, nil, had, now); !got.Equal(c.want) {
			t.Errorf("%s: from %s, want %s, when only the authority is left", name, got, c.want)
		}
		if got := since(cluster, port.RequiredFromFile, plain, had, nil, now); !got.Equal(c.want) || !slices.Equal(plain, c.plain) {
			t.Errorf("%s: from %s, want %s; plain %q", name, got, c.want, plain)
		}
	}
}

// memoryCertificates keep certificates in memory.
type memoryCertificates map[CertificateRole]map[string][]byte

func (k memoryCertificates) Names(context.Context, port.Ref) ([]ServedName, error) {
	return []ServedName{{ServedWriter, []string{"blue-rw", "blue-rw.default.svc"}}, {ServedReaders, []string{"blue-ro", "blue-ro.default.svc"}}, {ServedPoolers, []string{"blue-pooler-rw", "blue-pooler-rw.default.svc"}}}, nil
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
	certificate, key := port.ManagerIdentity(port.Ref{}).Files()
	k, cluster := memoryCertificates{}, &Cluster{Facts: &Facts{}, Spec: v1alpha1.SharedStorageClusterSpec{TLS: &v1alpha1.TLSSpec{Secret: "none", Require: true}}}
	ensure := func() (files map[string][]byte) {
		t.Helper()
		d := &certificateFact{}
		if err := d.ensure(t.Context(), k, cluster, now); !errors.Is(err, port.CertificateInvalid) {
			t.Fatal(err)
		}
		files = k[ServerCertificate]
		if err := usable(map[string][]byte{certificateFile: files[certificate], keyFile: files[key], authorityFile: files[port.AgentTrustFile]}, now); err != nil {
			t.Fatal(err)
		}
		if files[port.AgentCertificateFile] != nil {
			t.Error("a new cluster has a certificate without an identity")
		}
		return files
	}
	first := ensure()
	if string(first[port.RequiredFromFile]) != now.Format(time.RFC3339) || string(first[port.ClientsFile]) != port.ClientsRequire {
		t.Errorf("required from %s, clients %s: poolers without a certificate would serve them plain", first[port.RequiredFromFile], first[port.ClientsFile])
	}
	same := func(a, b map[string][]byte) bool {
		return bytes.Equal(a[certificate], b[certificate])
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

// identitiesIn returns the identities of the certificates in files.
func identitiesIn(t *testing.T, files map[string][]byte) (all []string) {
	t.Helper()
	for name := range files {
		stem, ok := strings.CutSuffix(name, ".crt")
		if !ok || !strings.HasPrefix(name, port.IdentityPrefix) {
			continue
		}
		leaf := leafOf(map[string][]byte{certificateFile: files[name], keyFile: files[stem+".key"]})
		if len(leaf.URIs) != 1 || !slices.Equal(leaf.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}) || len(leaf.DNSNames)+len(leaf.IPAddresses) > 0 {
			t.Errorf("%s: %v %v %v", name, leaf.URIs, leaf.ExtKeyUsage, leaf.DNSNames)
		}
		all = append(all, leaf.URIs[0].String())
	}
	slices.Sort(all)
	return all
}

// Each process has a certificate with its identity, for a server: an instance before it is among the facts, and as
// long as it is. A cluster that runs gets them first; they are verified ten minutes after everything has its own, and the
// certificate without a name goes then. Who deletes the files takes back neither.
func TestIdentities(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	ref := port.Ref{Namespace: "default", Name: "blue"}
	id := func(name string) string { return port.InstanceIdentity(ref.Of(name)).String() }
	k, cluster := memoryCertificates{}, &Cluster{Ref: ref, Facts: &Facts{At: now}}
	o := &Operator{options: Options{Certificates: k, Now: func() time.Time { return now }}}
	ensure := func() (*certificateFact, map[string][]byte) {
		t.Helper()
		cluster.Facts.At = now
		d := &certificateFact{plain: cluster.plain(), unnamed: cluster.unnamed()}
		if err := d.ensure(t.Context(), k, cluster, now); err != nil {
			t.Fatal(err)
		}
		cluster.Facts.certificate = d
		return d, k[ServerCertificate]
	}
	others := []string{"pawl://default/blue/manager", "pawl://default/blue/pooler"}
	d, files := ensure()
	if got := identitiesIn(t, files); !slices.Equal(got, others) || !d.named.Equal(now) || files[port.AgentCertificateFile] != nil {
		t.Errorf("a new cluster: %q, verified from %s", got, d.named)
	}
	if err := o.certify(t.Context(), cluster, "blue-1"); err != nil {
		t.Fatal(err)
	}
	_, files = ensure()
	if got := identitiesIn(t, files); !slices.Equal(got, append([]string{id("blue-1")}, others...)) {
		t.Errorf("an instance that is being made: %q", got)
	}
	cluster.Facts.Instances = []port.Instance{{Name: "blue-1", State: port.Up}}
	now = now.Add(time.Hour)
	if _, again := ensure(); !maps.EqualFunc(files, again, bytes.Equal) {
		t.Error("made anew without a reason")
	}
	cluster.Facts.Instances = []port.Instance{{Name: "blue-2", State: port.Up}}
	_, files = ensure()
	if got := identitiesIn(t, files); !slices.Equal(got, append([]string{id("blue-2")}, others...)) {
		t.Errorf("an instance that is gone: %q", got)
	}
	delete(k, ServerCertificate)
	if again, files := ensure(); !again.named.Equal(d.named) || !again.required.Equal(d.required) || len(identitiesIn(t, files)) != 3 {
		t.Errorf("somebody deleted the files: required from %s, verified from %s", again.required, again.named)
	}

	// A cluster of an earlier version, whose calls go over TLS already.
	for _, role := range []CertificateRole{Authority, ServerCertificate} {
		delete(k[role], port.NamedFromFile)
	}
	cluster.Facts.Engines, cluster.Facts.Topology = map[string]port.Status{"blue-2": {TLS: true}}, port.Topology{Present: true, TLS: true}
	told := func(want string) {
		t.Helper()
		if at := tlsReady(cluster); !strings.Contains(at.Message, want) {
			t.Errorf("%s: %s, want %s", at.Reason, at.Message, want)
		}
	}
	d, files = ensure()
	if !d.named.IsZero() || files[port.NamedFromFile] != nil || files[port.AgentCertificateFile] == nil || len(identitiesIn(t, files)) != 3 {
		t.Errorf("verified from %s, before anybody has a certificate of its own", d.named)
	}
	told("instance blue-2, the cluster manager. What was started by an earlier version")
	cluster.Facts.Engines, cluster.Facts.Topology = map[string]port.Status{"blue-2": {TLS: true, Identity: id("blue-2")}}, port.Topology{Present: true, TLS: true, Identity: others[0]}
	if d, files = ensure(); !d.named.Equal(now.Add(conversionTime)) || files[port.AgentCertificateFile] == nil {
		t.Errorf("verified from %s, %s before", d.named, now)
	}
	told("callers verify whom they call from")
	now = now.Add(conversionTime)
	if d, files = ensure(); !d.named.Equal(now) || files[port.AgentCertificateFile] != nil || files[port.AgentKeyFile] != nil {
		t.Error("the certificate without a name stays")
	}
	told("is valid until")

	cluster.Annotations = map[string]string{PlainCalls: "allow"}
	if d, files = ensure(); string(files[port.RequiredFromFile]) != port.PlainAllowed || !d.required.IsZero() {
		t.Errorf("plain calls are allowed, and required from %s", files[port.RequiredFromFile])
	}
	told("until the annotation pawl.dev/plain-calls is taken away")
	cluster.Annotations = nil
	if d, files = ensure(); d.required.IsZero() || d.required.After(now) || string(files[port.RequiredFromFile]) == port.PlainAllowed {
		t.Errorf("plain calls are allowed no more, and required from %s", files[port.RequiredFromFile])
	}
}

// given are memoryCertificates with a certificate of somebody.
type given struct {
	memoryCertificates
	files map[string][]byte
}

func (k given) Given(context.Context, port.Ref, v1alpha1.TLSSpec) (map[string][]byte, error) {
	return k.files, nil
}

// A certificate of somebody needs a name of each Service that the cluster has. One that lacks some is used, and the
// condition names them and says what to do.
func TestTheNamesOfAGivenCertificate(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	root, err := newCertificate(subject{common: "somebody"}, nil, now)
	if err != nil {
		t.Fatal(err)
	}
	none := int32(0)
	for name, c := range map[string]struct {
		names   []string
		pooler  bool
		readers *int32
		want    string // in the message; empty: the certificate is right
	}{
		"all":                     {[]string{"blue-rw.default.svc", "blue-ro.default.svc", "blue-pooler-rw.default.svc"}, true, nil, ""},
		"short ones":              {[]string{"blue-rw", "blue-ro", "blue-pooler-rw"}, true, nil, ""},
		"a wildcard":              {[]string{"*.default.svc"}, true, nil, ""},
		"without poolers":         {[]string{"blue-rw", "blue-ro"}, false, nil, ""},
		"without readers":         {[]string{"blue-rw"}, false, &none, ""},
		"none of the poolers":     {[]string{"blue-rw", "blue-ro"}, true, nil, "by blue-pooler-rw.default.svc"},
		"none of the readers":     {[]string{"blue-rw"}, false, nil, "by blue-ro.default.svc"},
		"those of something else": {[]string{"red-rw"}, true, nil, "by blue-rw.default.svc, blue-ro.default.svc, blue-pooler-rw.default.svc"},
	} {
		files, err := newCertificate(subject{common: "somebody's", names: c.names}, root, now)
		if err != nil {
			t.Fatal(err)
		}
		cluster := &Cluster{Ref: port.Ref{Namespace: "default", Name: "blue"}, Facts: &Facts{At: now}}
		cluster.Spec.TLS, cluster.Spec.Readers = &v1alpha1.TLSSpec{Secret: "given"}, c.readers
		if c.pooler {
			cluster.Spec.Pooler = &v1alpha1.PoolerSpec{}
		}
		k, d := given{memoryCertificates{}, files}, &certificateFact{}
		if err := d.ensure(t.Context(), k, cluster, now); err != nil {
			t.Fatal(err)
		}
		cluster.Facts.certificate = d
		for _, file := range []string{certificateFile, port.PoolerCertificateFile} {
			if !bytes.Equal(k.memoryCertificates[ServerCertificate][file], files[certificateFile]) {
				t.Errorf("%s: %s is another certificate", name, file)
			}
		}
		at := tlsReady(cluster)
		if c.want == "" && at.Reason != "CertificateValid" || c.want != "" && (at.Reason != "CertificateNameMissing" || !strings.Contains(at.Message, c.want+".") && !strings.HasSuffix(at.Message, c.want) || !strings.Contains(at.Message, "spec.dnsNames")) {
			t.Errorf("%s: %s %s", name, at.Reason, at.Message)
		}
	}
}

// Engines and poolers have certificates of the cluster's authority with the names of their own Services, and two keys.
func TestTheNamesOfOwnCertificates(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	k, cluster := memoryCertificates{}, &Cluster{Ref: port.Ref{Namespace: "default", Name: "blue"}, Facts: &Facts{}}
	if err := (&certificateFact{}).ensure(t.Context(), k, cluster, now); err != nil {
		t.Fatal(err)
	}
	files := k[ServerCertificate]
	if bytes.Equal(files[keyFile], files[port.PoolerKeyFile]) {
		t.Error("poolers have the key of the engines")
	}
	engine := leafOf(files)
	pooler := leafOf(map[string][]byte{certificateFile: files[port.PoolerCertificateFile], keyFile: files[port.PoolerKeyFile]})
	for name, of := range map[string]struct{ has, lacks *x509.Certificate }{
		"blue-rw": {engine, pooler}, "blue-ro.default.svc": {engine, pooler}, "blue-pooler-rw.default.svc": {pooler, engine}, "blue-pooler-rw": {pooler, engine},
	} {
		if of.has.VerifyHostname(name) != nil || of.lacks.VerifyHostname(name) == nil {
			t.Errorf("%s: %q, and not %q", name, of.has.DNSNames, of.lacks.DNSNames)
		}
	}
}

// A certificate that cannot be used when the operator begins to make one for poolers takes nothing from their clients:
// they go on with that of the engines, which poolers of the earlier version had. Later they keep their own.
func TestPoolersGoOnWithTheCertificateOfTheEngines(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	k, cluster := memoryCertificates{}, &Cluster{Ref: port.Ref{Namespace: "default", Name: "blue"}, Facts: &Facts{}}
	if err := (&certificateFact{}).ensure(t.Context(), k, cluster, now); err != nil {
		t.Fatal(err)
	}
	cluster.Spec.TLS = &v1alpha1.TLSSpec{Secret: "none", Require: true}
	own := maps.Clone(k[ServerCertificate])
	for name, c := range map[string]struct {
		left                 []byte // of the key of the poolers
		certificate, private string // in own
	}{
		"their own":             {own[port.PoolerKeyFile], port.PoolerCertificateFile, port.PoolerKeyFile},
		"of an earlier version": {nil, certificateFile, keyFile},
		"that does not fit":     {own[keyFile], certificateFile, keyFile},
	} {
		k[ServerCertificate] = maps.Clone(own)
		if k[ServerCertificate][port.PoolerKeyFile] = c.left; c.left == nil {
			delete(k[ServerCertificate], port.PoolerKeyFile)
			delete(k[ServerCertificate], port.PoolerCertificateFile)
		}
		if err := (&certificateFact{}).ensure(t.Context(), k, cluster, now); !errors.Is(err, port.CertificateInvalid) {
			t.Fatal(err)
		}
		files := k[ServerCertificate]
		if !bytes.Equal(files[port.PoolerCertificateFile], own[c.certificate]) || !bytes.Equal(files[port.PoolerKeyFile], own[c.private]) || !bytes.Equal(files[keyFile], own[keyFile]) {
			t.Errorf("%s: poolers do not have %s", name, c.certificate)
		}
		if string(files[port.ClientsFile]) != port.ClientsRequire {
			t.Errorf("%s: clients %s", name, files[port.ClientsFile])
		}
	}
}
