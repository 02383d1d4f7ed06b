package sharedstorage

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/condition"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// TLSCondition says whether the instances have the certificate that the spec asks for.
const TLSCondition = "TLSReady"

// The files of certificates. Trust has the authorities that the instances accept of each other: the present one
// and, until they end, earlier ones.
const (
	certificateFile = "tls.crt"
	keyFile         = "tls.key"
	authorityFile   = "ca.crt"
	trustFile       = "trust.crt"
)

const (
	certificateLife = 90 * 24 * time.Hour
	authorityLife   = 10 * 365 * 24 * time.Hour
	maxTrust        = 4 // authorities
)

// Certificates keeps the certificates of clusters: Secrets, or files.
type Certificates interface {
	// Names returns the DNS names and IP addresses at which clients find a cluster.
	Names(ctx context.Context, c port.Ref) ([]string, error)
	// Given reads the certificate that a spec names: tls.crt, tls.key and ca.crt.
	Given(ctx context.Context, c port.Ref, s v1alpha1.TLSSpec) (map[string][]byte, error)
	// Revision changes when the certificate that a spec names does. Each pass asks it, so it makes no call over
	// the network. Empty: there is none, or nothing tells of its changes.
	Revision(ctx context.Context, c port.Ref, s v1alpha1.TLSSpec) string
	// Load returns what is kept of a cluster; nil: nothing.
	Load(ctx context.Context, c port.Ref, role CertificateRole) (map[string][]byte, error)
	// Store keeps it. The instances get ServerCertificate, and nobody but the operator gets Authority.
	Store(ctx context.Context, c port.Ref, role CertificateRole, files map[string][]byte) error
}

// CertificateRole is what a certificate of a cluster is for.
type CertificateRole string

// The certificates of a cluster, each with its key.
const (
	Authority         CertificateRole = "ca"
	ServerCertificate CertificateRole = "tls"
)

// certificateFact is what was last found about the certificate of a cluster.
type certificateFact struct {
	authority []byte // for clients; nil: none yet
	until     time.Time
	required  time.Time // since when calls without TLS are refused; zero: not decided yet
	plain     []string  // what does not take calls over TLS yet
	err       error
}

// ensureCertificate sees to the certificates of a cluster: when the spec, the certificate that it
// names or an address has changed, once each IdleInterval, and in each pass after a failure. What fails is
// a condition and holds up nothing: the instances keep what they have.
func (o *Operator) ensureCertificate(ctx context.Context, c *Cluster) {
	if o.options.Certificates == nil || !c.DeletedAt.IsZero() || c.Refused != nil {
		return
	}
	cluster, key := c.Ref.Namespace+"/"+c.Ref.Name, c.Ref.UID+"/"+strconv.FormatInt(c.Generation, 10)
	for n := range c.Facts.Instances {
		key += "/" + c.Facts.Instances[n].Address
	}
	if c.Spec.TLS != nil {
		key += "/" + o.options.Certificates.Revision(ctx, c.Ref, *c.Spec.TLS)
	}
	plain, now := c.plain(), o.now()
	if last, _, ok := o.certificatesFound.Get(cluster, key, now); ok && (!last.required.IsZero() || slices.Equal(last.plain, plain)) {
		c.Facts.certificate = last
		return
	}
	ctx, cancel := context.WithTimeout(ctx, o.options.CallTimeout)
	defer cancel()
	d := &certificateFact{plain: plain}
	d.err = port.Guard(func() error { return d.ensure(ctx, o.options.Certificates, c, now) })
	c.Facts.certificate = d
	if d.err == nil {
		until := now.Add(o.options.IdleInterval)
		if d.required.After(now) && d.required.Before(until) {
			until = d.required
		}
		o.certificatesFound.Put(cluster, key, until, d)
	}
}

// conversionTime is how long the processes of a cluster may take until all have files that were replaced.
const conversionTime = 10 * time.Minute

func (d *certificateFact) ensure(ctx context.Context, k Certificates, c *Cluster, now time.Time) error {
	have, err := k.Load(ctx, c.Ref, ServerCertificate)
	if err != nil {
		return err
	}
	if leaf := leafOf(have); leaf != nil {
		d.authority, d.until = have[authorityFile], leaf.NotAfter
	}
	authority, err := ownAuthority(ctx, k, c, now)
	if err != nil {
		return err
	}
	want, err := agentFiles(c, authority, have, now)
	if err != nil {
		return err
	}
	engine, engineErr := engineFiles(ctx, k, c, authority, have, now)
	if engineErr != nil { // the engines go on with what they have; a Secret of this type has these files
		engine = map[string][]byte{certificateFile: have[certificateFile], keyFile: have[keyFile], authorityFile: have[authorityFile], trustFile: have[trustFile]}
	}
	maps.Copy(want, engine)
	if d.required = requiredFrom(c, d.plain, have, now); !d.required.IsZero() {
		want[port.RequiredFromFile] = []byte(d.required.Format(time.RFC3339))
	}
	want[port.ClientsFile] = []byte(clientsOptional)
	if s := c.Spec.TLS; s != nil && s.Require && !d.required.IsZero() && !now.Before(d.required) && len(engine[certificateFile]) > 0 {
		want[port.ClientsFile] = []byte(port.ClientsRequire)
	}
	if !maps.EqualFunc(want, have, bytes.Equal) {
		if err := k.Store(ctx, c.Ref, ServerCertificate, want); err != nil {
			return err
		}
	}
	if leaf := leafOf(want); leaf != nil {
		d.authority, d.until = want[authorityFile], leaf.NotAfter
	}
	return engineErr
}

// clientsOptional is the content of port.ClientsFile while clients need no TLS.
const clientsOptional = "optional"

// plain returns what does not take calls over TLS: it was started by an earlier version, has no certificate yet, or does not answer.
func (c *Cluster) plain() (names []string) {
	f := c.Facts
	for n := range f.Instances {
		i := &f.Instances[n]
		if i.State != port.Suspended && i.State != port.Leaving && !f.Engines[i.Name].TLS {
			names = append(names, "instance "+i.Name)
		}
	}
	if !f.known(factInstances) {
		names = append(names, "the instances, which are not known")
	}
	if !f.known(factManager) || f.Topology.Present && !f.Topology.TLS {
		names = append(names, "the cluster manager")
	}
	for _, p := range f.Poolers {
		if !p.TLS {
			names = append(names, "pooler "+p.Name)
		}
	}
	if !f.known(factPoolers) {
		names = append(names, "the poolers, which are not known")
	}
	return names
}

// requiredFrom returns since when calls without TLS are refused; zero: that is not decided yet. It is decided once: at
// once for a cluster that has no instances, and for a running one when everything takes calls over TLS.
func requiredFrom(c *Cluster, plain []string, have map[string][]byte, now time.Time) time.Time {
	if at, err := time.Parse(time.RFC3339, string(have[port.RequiredFromFile])); err == nil {
		return at
	}
	switch {
	case c.Facts.known(factInstances) && len(c.Facts.Instances) == 0 && c.Facts.known(factManager) && !c.Facts.Topology.Present:
		return now.Truncate(time.Second)
	case len(plain) == 0:
		return now.Add(conversionTime).Truncate(time.Second)
	}
	return time.Time{}
}

// ownAuthority returns the authority of the cluster. The certificates of agents and managers are always its own: by
// an authority that signs for others, too, any of these could pass for an agent.
func ownAuthority(ctx context.Context, k Certificates, c *Cluster, now time.Time) (map[string][]byte, error) {
	authority, err := k.Load(ctx, c.Ref, Authority)
	if err != nil {
		return nil, err
	}
	if at := leafOf(authority); at != nil && at.IsCA && !due(at, now) {
		return authority, nil
	}
	if authority, err = newCertificate("pawl "+c.Ref.Namespace+"/"+c.Ref.Name, nil, nil, now); err != nil {
		return nil, err
	}
	return authority, k.Store(ctx, c.Ref, Authority, authority)
}

// agentFiles returns the certificate of agents, managers and poolers. That of a new authority is used when everybody
// has had the time to read that authority, because a manager that does not accept its writer would fail over.
func agentFiles(c *Cluster, authority, have map[string][]byte, now time.Time) (map[string][]byte, error) {
	files := map[string][]byte{port.AgentTrustFile: trusted(authority[certificateFile], have[port.AgentTrustFile], now)}
	former := map[string][]byte{certificateFile: have[port.AgentCertificateFile], keyFile: have[port.AgentKeyFile], authorityFile: authority[certificateFile]}
	if leaf := leafOf(former); leaf != nil {
		signed := usable(former, now) == nil && !due(leaf, now)
		former[authorityFile] = have[port.AgentTrustFile]
		early := now.Before(leafOf(authority).NotBefore.Add(conversionTime)) && now.Add(conversionTime).Before(leaf.NotAfter) && usable(former, now) == nil
		if signed || early {
			files[port.AgentCertificateFile], files[port.AgentKeyFile] = former[certificateFile], former[keyFile]
			return files, nil
		}
	}
	made, err := newCertificate("agent "+c.Ref.Namespace+"/"+c.Ref.Name, nil, authority, now)
	files[port.AgentCertificateFile], files[port.AgentKeyFile] = made[certificateFile], made[keyFile]
	return files, err
}

// engineFiles returns the certificate of the engines: that of the spec, or one of the cluster's own authority.
func engineFiles(ctx context.Context, k Certificates, c *Cluster, authority, have map[string][]byte, now time.Time) (map[string][]byte, error) {
	var want map[string][]byte
	var err error
	if s := c.Spec.TLS; s != nil && (s.Secret != "" || s.Folder != "") {
		if want, err = k.Given(ctx, c.Ref, *s); err == nil {
			err = usable(want, now)
		}
	} else {
		want, err = issued(ctx, k, c, authority, have, now)
	}
	if err != nil {
		return nil, err
	}
	return map[string][]byte{certificateFile: want[certificateFile], keyFile: want[keyFile], authorityFile: want[authorityFile],
		trustFile: trusted(want[authorityFile], have[trustFile], now)}, nil
}

// issued returns a certificate of the cluster's own authority: the present one, until two thirds of its life are
// over or it lacks a name.
func issued(ctx context.Context, k Certificates, c *Cluster, authority, have map[string][]byte, now time.Time) (map[string][]byte, error) {
	names, err := k.Names(ctx, c.Ref)
	if err != nil {
		return nil, err
	}
	leaf := leafOf(have)
	if leaf != nil && bytes.Equal(have[authorityFile], authority[certificateFile]) && !due(leaf, now) && usable(have, now) == nil &&
		!slices.ContainsFunc(names, func(name string) bool { return leaf.VerifyHostname(name) != nil }) {
		return have, nil
	}
	return newCertificate(names[0], names, authority, now)
}

// due reports whether two thirds of the life of a certificate are over.
func due(c *x509.Certificate, now time.Time) bool {
	return now.After(c.NotBefore.Add(c.NotAfter.Sub(c.NotBefore) / 3 * 2))
}

// newCertificate makes a certificate and its key. Without an authority it is one itself.
func newCertificate(name string, names []string, authority map[string][]byte, now time.Time) (map[string][]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	made := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name[:min(len(name), 64)]}, NotBefore: now.Add(-time.Minute).UTC(), BasicConstraintsValid: true,
	}
	parent, signer := made, any(key)
	if authority == nil {
		made.NotAfter, made.IsCA, made.MaxPathLenZero, made.KeyUsage = now.Add(authorityLife).UTC(), true, true, x509.KeyUsageCertSign|x509.KeyUsageCRLSign
	} else {
		made.NotAfter, made.KeyUsage, made.ExtKeyUsage = now.Add(certificateLife).UTC(), x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		for _, name := range names {
			if ip := net.ParseIP(name); ip != nil {
				made.IPAddresses = append(made.IPAddresses, ip)
			} else {
				made.DNSNames = append(made.DNSNames, name)
			}
		}
		pair, err := tls.X509KeyPair(authority[certificateFile], authority[keyFile])
		if err != nil {
			return nil, port.CertificateInvalid.Errorf("the authority of the cluster: %w", err)
		}
		parent, signer = pair.Leaf, pair.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, made, parent, key.Public(), signer)
	if err != nil {
		return nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{
		certificateFile: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		keyFile:         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
	}
	files[authorityFile] = files[certificateFile]
	if authority != nil {
		files[authorityFile] = authority[certificateFile]
	}
	return files, nil
}

// usable reports CERTIFICATE_INVALID of files that do not fit together or are not valid now.
func usable(files map[string][]byte, now time.Time) error {
	for _, name := range []string{certificateFile, keyFile, authorityFile} {
		if len(files[name]) == 0 {
			return port.CertificateInvalid.Errorf("there is no %s", name)
		}
	}
	pair, err := tls.X509KeyPair(files[certificateFile], files[keyFile])
	if err != nil {
		return port.CertificateInvalid.Errorf("%w", err)
	}
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	if !roots.AppendCertsFromPEM(files[authorityFile]) {
		return port.CertificateInvalid.Errorf("%s has no certificate", authorityFile)
	}
	for _, der := range pair.Certificate[1:] {
		if more, err := x509.ParseCertificate(der); err == nil {
			between.AddCert(more)
		}
	}
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: now}); err != nil {
		return port.CertificateInvalid.Errorf("%w", err)
	}
	return nil
}

// leafOf returns the certificate in tls.crt; nil: there is none that has its key.
func leafOf(files map[string][]byte) *x509.Certificate {
	pair, err := tls.X509KeyPair(files[certificateFile], files[keyFile])
	if err != nil {
		return nil
	}
	return pair.Leaf
}

// trusted returns the authorities that instances accept: the present ones, and earlier ones that have not ended, so
// that an instance that has its new certificate reaches one that has not.
func trusted(authority, former []byte, now time.Time) []byte {
	var all []byte
	var seen [][]byte
	for rest := slices.Concat(authority, []byte("\n"), former); len(seen) < maxTrust; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil || now.After(c.NotAfter) || slices.ContainsFunc(seen, func(der []byte) bool { return bytes.Equal(der, block.Bytes) }) {
			continue
		}
		seen, all = append(seen, block.Bytes), append(all, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: block.Bytes})...)
	}
	return all
}

// tlsReady says whether the instances have their certificate and refuse calls without TLS; nil: nobody keeps certificates.
func tlsReady(c *Cluster) *metav1.Condition {
	d := c.Facts.certificate
	switch {
	case d == nil:
		return nil
	case d.err == nil && d.required.IsZero():
		return new(condition.New(TLSCondition, metav1.ConditionFalse, "Converting", "calls without TLS are accepted until these take calls with it: %s. What was started by an earlier version does so after a restart", strings.Join(d.plain, ", ")))
	case d.err == nil && c.Facts.At.Before(d.required):
		return new(condition.New(TLSCondition, metav1.ConditionFalse, "Converting", "calls without TLS are refused from %s on", d.required.UTC().Format(time.RFC3339)))
	case d.err == nil:
		return new(condition.New(TLSCondition, metav1.ConditionTrue, "CertificateValid", "the certificate of the instances is valid until %s", d.until.UTC().Format(time.RFC3339)))
	}
	kind := fault.Of(d.err)
	if kind == fault.Unknown {
		return new(condition.FromFault(TLSCondition, port.CertificateInvalid, "%s", d.err.Error()))
	}
	text := fault.Message(d.err)
	if d.authority != nil {
		text = fmt.Sprintf("%s; the instances go on with the certificate that is valid until %s", text, d.until.UTC().Format(time.RFC3339))
	}
	return new(condition.FromFault(TLSCondition, kind, "%s", text))
}
