package declared

import (
	"context"
	"errors"
	"strings"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// Credentials keeps the passwords that the operator makes: Secrets, or files.
type Credentials interface {
	// Ensure returns the password of a user, and makes one if there is none. What is kept beside it is
	// kept as Login says. Whoever changes the password where it is kept changes it for the user.
	Ensure(ctx context.Context, c port.Ref, l Login) (Credential, error)
	// Revision changes when somebody changes a password where it is kept: in from, or where Ensure keeps
	// it. Each pass asks it, so it makes no call over the network. Empty: there is none, or nothing
	// tells of its changes.
	Revision(ctx context.Context, c port.Ref, user string, from *v1alpha1.SecretSource) string
	// Remove removes the password of a dropped user. A missing one is not an error.
	Remove(ctx context.Context, c port.Ref, user string) error
}

// Login is how a user logs in.
type Login struct {
	User, Database string
	CA             []byte // the authorities of the instances' certificates; nil: they have none
}

// Credential is a password, and the Secret or file where it is kept.
type Credential struct{ Password, Where string }

// secret reads a password that the spec names, without the line break at its end.
func (l *look) secret(ctx context.Context, from v1alpha1.SecretSource) (string, error) {
	if l.r.options.Secrets == nil {
		return "", errors.New("this operator reads no secrets")
	}
	text, err := l.r.options.Secrets(ctx, l.c.Ref.Namespace, from)
	return strings.TrimRight(text, "\r\n"), err
}
