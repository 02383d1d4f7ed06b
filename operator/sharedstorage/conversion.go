package sharedstorage

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/condition"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// conversionTime is how long the processes of a cluster may take until all have files that were replaced.
const conversionTime = 10 * time.Minute

// decide sets since when calls without TLS are refused, and since when callers verify identities. Both are decided
// once, and kept beside the authority as well, so that nobody takes them back by deleting the files of the processes.
func (d *certificateFact) decide(ctx context.Context, k Certificates, c *Cluster, authority, have map[string][]byte, now time.Time) error {
	kept := maps.Clone(authority)
	d.required = since(c, port.RequiredFromFile, d.plain, have, authority, now)
	d.named = since(c, port.NamedFromFile, d.unnamed, have, authority, now)
	for name, at := range map[string]time.Time{port.RequiredFromFile: d.required, port.NamedFromFile: d.named} {
		if !at.IsZero() {
			kept[name] = []byte(at.Format(time.RFC3339))
		}
	}
	if d.allowed = c.plainAllowed(); d.allowed {
		d.required = time.Time{}
	}
	if maps.EqualFunc(kept, authority, bytes.Equal) {
		return nil
	}
	return k.Store(ctx, c.Ref, Authority, kept)
}

// since returns when something begins that all processes must be ready for; zero: that is not decided yet. It is
// decided once: at once for a cluster that has no instances, and for a running one when no process lacks it.
func since(c *Cluster, file string, lacking []string, have, authority map[string][]byte, now time.Time) time.Time {
	for _, files := range []map[string][]byte{have, authority} {
		if at, err := time.Parse(time.RFC3339, string(files[file])); err == nil {
			return at
		}
	}
	switch {
	case c.Facts.known(factInstances) && len(c.Facts.Instances) == 0 && c.Facts.known(factManager) && !c.Facts.Topology.Present:
		return now.Truncate(time.Second)
	case len(lacking) == 0:
		return now.Add(conversionTime).Truncate(time.Second)
	}
	return time.Time{}
}

// plain returns what does not take calls over TLS: it was started by an earlier version, has no certificate yet, or does not answer.
func (c *Cluster) plain() []string {
	return c.lacking(func(tls bool, _ string, _ port.Identity) bool { return tls })
}

// unnamed returns what does not have its identity in its certificate, for the same reasons.
func (c *Cluster) unnamed() []string {
	return c.lacking(func(_ bool, is string, want port.Identity) bool { return is == want.String() })
}

func (c *Cluster) lacking(has func(tls bool, is string, want port.Identity) bool) (names []string) {
	f := c.Facts
	for n := range f.Instances {
		i := &f.Instances[n]
		if st := f.Engines[i.Name]; i.State != port.Suspended && i.State != port.Leaving && !has(st.TLS, st.Identity, port.InstanceIdentity(c.Ref.Of(i.Name))) {
			names = append(names, "instance "+i.Name)
		}
	}
	if !f.known(factInstances) {
		names = append(names, "the instances, which are not known")
	}
	if t := f.Topology; !f.known(factManager) || t.Present && !has(t.TLS, t.Identity, port.ManagerIdentity(c.Ref)) {
		names = append(names, "the cluster manager")
	}
	for _, p := range f.Poolers {
		if !has(p.TLS, p.Identity, port.PoolerIdentity(c.Ref)) {
			names = append(names, "pooler "+p.Name)
		}
	}
	if !f.known(factPoolers) {
		names = append(names, "the poolers, which are not known")
	}
	return names
}

// tlsReady says whether everything has its certificate, calls without TLS are refused and identities are verified; nil:
// nobody keeps certificates.
func tlsReady(c *Cluster) *metav1.Condition {
	d := c.Facts.certificate
	if d == nil {
		return nil
	}
	if d.err != nil {
		return d.failed()
	}
	converting := func(format string, args ...any) *metav1.Condition {
		return new(condition.New(TLSCondition, metav1.ConditionFalse, "Converting", format, args...))
	}
	switch {
	case d.allowed:
		return new(condition.New(TLSCondition, metav1.ConditionFalse, "PlainCallsAllowed", "calls without TLS are accepted until the annotation %s is taken away", PlainCalls))
	case d.required.IsZero():
		return converting("calls without TLS are accepted until these take calls with it: %s. What was started by an earlier version does so after a restart", strings.Join(d.plain, ", "))
	case c.Facts.At.Before(d.required):
		return converting("calls without TLS are refused from %s on", d.required.UTC().Format(time.RFC3339))
	case d.named.IsZero():
		return converting("callers verify whom they call when these have a certificate of their own: %s. What was started by an earlier version has one after a restart", strings.Join(d.unnamed, ", "))
	case c.Facts.At.Before(d.named):
		return converting("callers verify whom they call from %s on", d.named.UTC().Format(time.RFC3339))
	case len(d.missing) > 0:
		return new(condition.FromFault(TLSCondition, port.CertificateNameMissing, "clients cannot verify the certificate by %s", strings.Join(d.missing, ", ")))
	}
	return new(condition.New(TLSCondition, metav1.ConditionTrue, "CertificateValid", "the certificate of the instances is valid until %s", d.until.UTC().Format(time.RFC3339)))
}

// failed returns the condition of a certificate that cannot be had or used.
func (d *certificateFact) failed() *metav1.Condition {
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
