package kube

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/controller"
	"github.com/pawl-dev/pawl/operator/sharedstorage/declared"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// Credentials keeps passwords in Secrets <cluster>-<user> of type kubernetes.io/basic-auth, with what a
// client needs to log in: username, password, dbname, host, port, uri, jdbc-uri, pgpass and ca.crt.
type Credentials struct{ placement *Placement }

var _ declared.Credentials = Credentials{}

// Credentials returns the passwords of users.
func (s *Placement) Credentials() Credentials { return Credentials{s} }

// CredentialsName returns the Secret of a user.
func CredentialsName(cluster, user string) string {
	return cluster + "-" + strings.ReplaceAll(user, "_", "-")
}

// Ensure implements declared.Credentials. A Secret that somebody else has made is used as it is,
// unless it belongs to another cluster.
func (k Credentials) Ensure(ctx context.Context, c port.Ref, l declared.Login) (kept declared.Credential, err error) {
	kept.Where = CredentialsName(c.Name, l.User)
	obj := &corev1.Secret{ObjectMeta: meta(c, kept.Where, "")}
	obj.Type = corev1.SecretTypeBasicAuth
	err = k.placement.o.Live.Get(ctx, client.ObjectKeyFromObject(obj), obj)
	switch {
	case apierrors.IsNotFound(err):
		kept.Password = random()
		obj.Data = loginOf(c, l, kept.Password)
		made, err := k.placement.createObject(ctx, c, obj)
		if err == nil && !made {
			err = fmt.Errorf("Secret %s was just made by somebody else", kept.Where) //nolint:staticcheck // the kind is a name
		}
		return kept, controller.Fault(err)
	case err != nil:
		return kept, controller.Fault(err)
	}
	kept.Password = strings.TrimRight(string(obj.Data["password"]), "\r\n")
	if owner := metav1.GetControllerOf(obj); owner == nil {
		return kept, nil
	} else if string(owner.UID) != c.UID {
		return kept, fmt.Errorf("Secret %s belongs to %s %s", kept.Where, owner.Kind, owner.Name) //nolint:staticcheck // the kind is a name
	}
	if kept.Password == "" {
		kept.Password = random()
	}
	want := loginOf(c, l, kept.Password)
	if maps.EqualFunc(obj.Data, want, bytes.Equal) {
		return kept, nil
	}
	before := obj.DeepCopy()
	obj.Data = want
	return kept, controller.Fault(k.placement.o.Client.Patch(ctx, obj, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
}

// Revision implements declared.Credentials.
func (k Credentials) Revision(ctx context.Context, c port.Ref, user string, from *v1alpha1.SecretSource) string {
	switch {
	case from == nil:
		return k.placement.secretRevision(ctx, c, CredentialsName(c.Name, user))
	case from.Secret == nil:
		return ""
	}
	return k.placement.secretRevision(ctx, c, from.Secret.Name)
}

// secretRevision returns the version of a Secret from the watched metadata; empty: there is none, or it has not the
// label of a cluster and so is not watched.
func (s *Placement) secretRevision(ctx context.Context, c port.Ref, name string) string {
	seen := metadata("Secret", c, name)
	if err := s.watched().Get(ctx, client.ObjectKeyFromObject(seen), seen); err != nil {
		return ""
	}
	return versionOfSecret(seen)
}

// Remove implements declared.Credentials.
func (k Credentials) Remove(ctx context.Context, c port.Ref, user string) error {
	obj := &corev1.Secret{ObjectMeta: meta(c, CredentialsName(c.Name, user), "")}
	err := k.placement.o.Live.Get(ctx, client.ObjectKeyFromObject(obj), obj)
	if owner := metav1.GetControllerOf(obj); err == nil && owner != nil && string(owner.UID) == c.UID {
		err = k.placement.remove(ctx, obj)
	}
	return controller.Fault(client.IgnoreNotFound(err))
}

// loginOf returns the keys of a Secret. Clients are sent to the writer.
func loginOf(c port.Ref, l declared.Login, password string) map[string][]byte {
	host, number := c.Name+"-"+string(port.Writer)+"."+c.Namespace, itoa(enginePort)
	uri := url.URL{Scheme: "postgresql", User: url.UserPassword(l.User, password), Host: host + ":" + number, Path: l.Database}
	jdbc := url.URL{Scheme: "postgresql", Host: uri.Host, Path: l.Database, RawQuery: url.Values{"user": {l.User}, "password": {password}}.Encode()}
	escape := strings.NewReplacer(`\`, `\\`, `:`, `\:`).Replace
	login := map[string][]byte{
		"username": []byte(l.User), "password": []byte(password), "dbname": []byte(l.Database), "host": []byte(host), "port": []byte(number),
		"uri": []byte(uri.String()), "jdbc-uri": []byte("jdbc:" + jdbc.String()),
		"pgpass": []byte(strings.Join([]string{host, number, l.Database, l.User, escape(password)}, ":") + "\n"),
	}
	if l.CA != nil {
		login["ca.crt"] = l.CA
	}
	return login
}
