package sharedstorage

import (
	"bytes"
	"context"
	"errors"
	"hash/maphash"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// agentFiles returns the certificates with which agents, managers and poolers are called: each has one with its
// identity, and until identities are verified there is one for the processes of earlier versions.
func (d *certificateFact) agentFiles(c *Cluster, authority, have map[string][]byte, now time.Time) (map[string][]byte, error) {
	files := map[string][]byte{port.AgentTrustFile: trusted(authority[certificateFile], have[port.AgentTrustFile], now)}
	own := []port.Identity{port.ManagerIdentity(c.Ref), port.PoolerIdentity(c.Ref)}
	for n := range c.Facts.Instances {
		if i := &c.Facts.Instances[n]; i.State != port.Leaving {
			own = append(own, port.InstanceIdentity(c.Ref.Of(i.Name)))
		}
	}
	for _, who := range own {
		if err := identityFiles(files, who, authority, have, now); err != nil {
			return nil, err
		}
	}
	keepStarting(files, c.Facts.known(factInstances), have, now)
	if d.named.IsZero() || now.Before(d.named) {
		pair, err := callPair(port.AgentCertificateFile, port.AgentKeyFile, subject{common: "agent " + c.Ref.Namespace + "/" + c.Ref.Name}, authority, have, now)
		if err != nil {
			return nil, err
		}
		maps.Copy(files, pair)
	}
	return files, nil
}

// identityFiles adds the certificate of an identity.
func identityFiles(files map[string][]byte, who port.Identity, authority, have map[string][]byte, now time.Time) error {
	certificate, key := who.Files()
	pair, err := callPair(certificate, key, subject{common: who.String(), who: who}, authority, have, now)
	maps.Copy(files, pair)
	return err
}

// keepStarting keeps the certificates of instances that are made just now, and not among the facts yet.
func keepStarting(files map[string][]byte, known bool, have map[string][]byte, now time.Time) {
	for name, text := range have {
		stem, ok := strings.CutSuffix(name, ".crt")
		if !ok || !strings.HasPrefix(name, port.IdentityPrefix) || files[name] != nil {
			continue
		}
		leaf := leafOf(map[string][]byte{certificateFile: text, keyFile: have[stem+".key"]})
		if leaf != nil && (!known || now.Before(leaf.NotBefore.Add(conversionTime))) {
			files[name], files[stem+".key"] = text, have[stem+".key"]
		}
	}
}

// callPair returns a certificate for calls, and its key: the present one while it can be used. That of a new authority
// is used when everybody has had the time to read that authority, because a manager that does not accept its writer
// would fail over.
func callPair(certificate, key string, of subject, authority, have map[string][]byte, now time.Time) (map[string][]byte, error) {
	former := map[string][]byte{certificateFile: have[certificate], keyFile: have[key], authorityFile: authority[certificateFile]}
	if leaf := leafOf(former); leaf != nil {
		signed := usable(former, now) == nil && !due(leaf, now)
		former[authorityFile] = have[port.AgentTrustFile]
		early := now.Before(leafOf(authority).NotBefore.Add(conversionTime)) && now.Add(conversionTime).Before(leaf.NotAfter) && usable(former, now) == nil
		if signed || early {
			return map[string][]byte{certificate: have[certificate], key: have[key]}, nil
		}
	}
	made, err := newCertificate(of, authority, now)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{certificate: made[certificateFile], key: made[keyFile]}, nil
}

// certify gives an instance that is about to be made its certificate, so that its agent has it when it starts. A
// certificate that cannot be had holds up nothing: the condition says so.
func (o *Operator) certify(ctx context.Context, c *Cluster, instance string) error {
	k := o.options.Certificates
	if k == nil {
		return nil
	}
	lock := o.certificateLocks.of(c.Ref.Namespace + "/" + c.Ref.Name)
	lock.Lock()
	defer lock.Unlock()
	have, err := k.Load(ctx, c.Ref, ServerCertificate)
	if err == nil && have != nil {
		var authority map[string][]byte
		if authority, err = ownAuthority(ctx, k, c, o.now()); err == nil {
			want := maps.Clone(have)
			if err = identityFiles(want, port.InstanceIdentity(c.Ref.Of(instance)), authority, have, o.now()); err == nil && !maps.EqualFunc(want, have, bytes.Equal) {
				err = k.Store(ctx, c.Ref, ServerCertificate, want)
			}
		}
	}
	if errors.Is(err, port.CertificateInvalid) {
		return nil
	}
	return err
}

// certificateLocks let one change of the files of a cluster follow another. Clusters share them.
type certificateLocks [16]sync.Mutex

var lockSeed = maphash.MakeSeed()

func (l *certificateLocks) of(cluster string) *sync.Mutex {
	return &l[maphash.String(lockSeed, cluster)%uint64(len(l))]
}

// servedFiles returns the certificates of engines and poolers for clients: that of the spec, or ones of the cluster's own
// authority.
func (d *certificateFact) servedFiles(ctx context.Context, k Certificates, c *Cluster, authority, have map[string][]byte, now time.Time) (map[string][]byte, error) {
	served, err := k.Names(ctx, c.Ref)
	if err != nil {
		return nil, err
	}
	var engine, pooler map[string][]byte
	if s := c.Spec.TLS; s != nil && (s.Secret != "" || s.Folder != "") {
		if engine, err = k.Given(ctx, c.Ref, *s); err == nil {
			err = usable(engine, now)
		}
		if err != nil {
			return nil, err
		}
		pooler, d.missing = engine, missingNames(c, served, engine)
	} else {
		var names, poolerNames []string
		for _, at := range served {
			if at.Part == ServedPoolers {
				poolerNames = append(poolerNames, at.Names...)
			} else {
				names = append(names, at.Names...)
			}
		}
		if engine, err = issued(names, authority, have, now); err != nil {
			return nil, err
		}
		former := map[string][]byte{certificateFile: have[port.PoolerCertificateFile], keyFile: have[port.PoolerKeyFile], authorityFile: have[authorityFile]}
		if pooler, err = issued(poolerNames, authority, former, now); err != nil {
			return nil, err
		}
	}
	return map[string][]byte{certificateFile: engine[certificateFile], keyFile: engine[keyFile], authorityFile: engine[authorityFile],
		port.PoolerCertificateFile: pooler[certificateFile], port.PoolerKeyFile: pooler[keyFile],
		trustFile: trusted(engine[authorityFile], have[trustFile], now)}, nil
}

// issued returns a certificate of the cluster's own authority: the present one, until two thirds of its life are
// over or it lacks a name.
func issued(names []string, authority, have map[string][]byte, now time.Time) (map[string][]byte, error) {
	names = slices.Concat(names, localNames)
	leaf := leafOf(have)
	if leaf != nil && bytes.Equal(have[authorityFile], authority[certificateFile]) && !due(leaf, now) && usable(have, now) == nil &&
		!slices.ContainsFunc(names, func(name string) bool { return leaf.VerifyHostname(name) != nil }) {
		return have, nil
	}
	return newCertificate(subject{common: names[0], names: names}, authority, now)
}

// missingNames returns a name for each place where clients find the cluster of which a certificate has none.
func missingNames(c *Cluster, served []ServedName, files map[string][]byte) (missing []string) {
	leaf := leafOf(files)
	for _, at := range served {
		switch {
		case at.Part == ServedPoolers && c.Spec.Pooler == nil, at.Part == ServedReaders && c.Spec.Readers != nil && *c.Spec.Readers == 0:
			continue
		}
		if !slices.ContainsFunc(at.Names, func(name string) bool { return leaf.VerifyHostname(name) == nil }) {
			missing = append(missing, bestName(at.Names))
		}
	}
	return missing
}

// bestName returns the name that clients of all namespaces can use: that of a Service ends with .svc.
func bestName(names []string) string {
	for _, name := range names {
		if net.ParseIP(name) == nil && strings.HasSuffix(name, ".svc") {
			return name
		}
	}
	return names[0]
}
