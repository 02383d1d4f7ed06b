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
	"maps"
	"math/big"
	"net"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
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
	// Names returns where clients find a cluster.
	Names(ctx context.Context, c port.Ref) ([]ServedName, error)
	// Given reads the certificate that a spec names: tls.crt, tls.key and ca.crt.
	Given(ctx context.Context, c port.Ref, s v1alpha1.TLSSpec) (map[string][]byte, error)
	// Revision changes when the certificate that a spec names does, or what is kept of the cluster. Each pass asks it, so
	// it makes no call over the network. Empty: there is none, or nothing tells of its changes.
	Revision(ctx context.Context, c port.Ref, s v1alpha1.TLSSpec) string
	// Load returns what is kept of a cluster; nil: nothing.
	Load(ctx context.Context, c port.Ref, role CertificateRole) (map[string][]byte, error)
	// Store keeps it. The instances get ServerCertificate, and nobody but the operator gets Authority.
	Store(ctx context.Context, c port.Ref, role CertificateRole, files map[string][]byte) error
}

// ServedName is where clients find a part of a cluster: a Service, or the address of a process.
type ServedName struct {
	Part  ServedPart
	Names []string // DNS names and IP addresses of one place; a certificate that somebody gives needs one of them
}

// ServedPart is the part of a cluster that clients find.
type ServedPart string

// The parts of a cluster.
const (
	ServedWriter  ServedPart = "writer"
	ServedReaders ServedPart = "readers"
	ServedPoolers ServedPart = "poolers"
)

// localNames are in each certificate that the operator makes: for clients that reach the server through a tunnel.
var localNames = []string{"localhost", "127.0.0.1"}

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
	named     time.Time // since when callers verify identities; zero: not decided yet
	unnamed   []string  // what does not have its identity in its certificate yet
	missing   []string  // names that the certificate of the spec lacks
	allowed   bool      // calls without TLS are, by PlainCalls
	err       error
}

// PlainCalls is the annotation of a cluster whose agents, manager and poolers take calls without TLS although they
// were required to use it, if its value is "allow": for repairs.
const PlainCalls = Prefix + "plain-calls"

func (c *Cluster) plainAllowed() bool { return c.Annotations[PlainCalls] == "allow" }

// ensureCertificate sees to the certificates of a cluster: when the spec, the certificate that it
// names or an address has changed, once each IdleInterval, and in each pass after a failure. What fails is
// a condition and holds up nothing: the instances keep what they have.
func (o *Operator) ensureCertificate(ctx context.Context, c *Cluster) {
	if o.options.Certificates == nil || !c.DeletedAt.IsZero() || c.Refused != nil {
		return
	}
	cluster, key := c.Ref.Namespace+"/"+c.Ref.Name, c.Ref.UID+"/"+strconv.FormatInt(c.Generation, 10)
	for n := range c.Facts.Instances {
		key += "/" + c.Facts.Instances[n].Name + "=" + c.Facts.Instances[n].Address
	}
	for _, p := range c.Facts.Poolers {
		key += "/" + p.Address
	}
	var spec v1alpha1.TLSSpec
	if c.Spec.TLS != nil {
		spec = *c.Spec.TLS
	}
	key += "/" + c.Annotations[PlainCalls] + "/" + o.options.Certificates.Revision(ctx, c.Ref, spec)
	d, now := &certificateFact{plain: c.plain(), unnamed: c.unnamed()}, o.now()
	if last, _, ok := o.certificatesFound.Get(cluster, key, now); ok && last.waits(d) {
		c.Facts.certificate = last
		return
	}
	ctx, cancel := context.WithTimeout(ctx, o.options.CallTimeout)
	defer cancel()
	o.certificateLocks.of(cluster).Lock()
	defer o.certificateLocks.of(cluster).Unlock()
	d.err = port.Guard(func() error { return d.ensure(ctx, o.options.Certificates, c, now) })
	c.Facts.certificate = d
	if d.err == nil {
		until := now.Add(o.options.IdleInterval)
		for _, at := range []time.Time{d.required, d.named} {
			if at.After(now) && at.Before(until) {
				until = at
			}
		}
		o.certificatesFound.Put(cluster, key, until, d)
	}
}

// waits reports whether a new look decides nothing that the last one has not.
func (d *certificateFact) waits(next *certificateFact) bool {
	return (!d.required.IsZero() || d.allowed || slices.Equal(d.plain, next.plain)) && (!d.named.IsZero() || slices.Equal(d.unnamed, next.unnamed))
}

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
	if err := d.decide(ctx, k, c, authority, have, now); err != nil {
		return err
	}
	want, err := d.agentFiles(c, authority, have, now)
	if err != nil {
		return err
	}
	engine, engineErr := d.servedFiles(ctx, k, c, authority, have, now)
	if engineErr != nil { // engines and poolers go on with what they have; a Secret of this type has the first two files
		engine = map[string][]byte{certificateFile: have[certificateFile], keyFile: have[keyFile], authorityFile: have[authorityFile], trustFile: have[trustFile]}
		pooler := map[string][]byte{certificateFile: have[port.PoolerCertificateFile], keyFile: have[port.PoolerKeyFile]}
		if leafOf(pooler) == nil { // of an earlier version: its poolers had that of the engines
			pooler = engine
		}
		if leafOf(pooler) != nil {
			engine[port.PoolerCertificateFile], engine[port.PoolerKeyFile] = pooler[certificateFile], pooler[keyFile]
		}
	}
	maps.Copy(want, engine)
	if !d.required.IsZero() {
		want[port.RequiredFromFile] = []byte(d.required.Format(time.RFC3339))
	}
	if d.allowed {
		want[port.RequiredFromFile] = []byte(port.PlainAllowed)
	}
	if !d.named.IsZero() {
		want[port.NamedFromFile] = []byte(d.named.Format(time.RFC3339))
	}
	want[port.ClientsFile] = []byte(clientsOptional)
	if s := c.Spec.TLS; s != nil && s.Require && !d.required.IsZero() && !now.Before(d.required) {
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
	if authority, err = newCertificate(subject{common: "pawl " + c.Ref.Namespace + "/" + c.Ref.Name}, nil, now); err != nil {
		return nil, err
	}
	return authority, k.Store(ctx, c.Ref, Authority, authority)
}

// due reports whether two thirds of the life of a certificate are over.
func due(c *x509.Certificate, now time.Time) bool {
	return now.After(c.NotBefore.Add(c.NotAfter.Sub(c.NotBefore) / 3 * 2))
}

// subject is whom a certificate is for.
type subject struct {
	common string
	names  []string // DNS names and IP addresses
	who    port.Identity
}

// newCertificate makes the certificate of a server, and its key. Without an authority it is one itself.
func newCertificate(of subject, authority map[string][]byte, now time.Time) (map[string][]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	made := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: of.common[:min(len(of.common), 64)]}, NotBefore: now.Add(-time.Minute).UTC(), BasicConstraintsValid: true,
	}
	parent, signer := made, any(key)
	if authority == nil {
		made.NotAfter, made.IsCA, made.MaxPathLenZero, made.KeyUsage = now.Add(authorityLife).UTC(), true, true, x509.KeyUsageCertSign|x509.KeyUsageCRLSign
	} else {
		made.NotAfter, made.KeyUsage, made.ExtKeyUsage = now.Add(certificateLife).UTC(), x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		if at := of.who.URL(); at != nil {
			made.URIs = []*url.URL{at}
		}
		for _, name := range of.names {
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
