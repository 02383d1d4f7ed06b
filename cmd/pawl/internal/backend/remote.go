package backend

import (
	"context"
	"errors"
)

// RemoteOptions say which server is asked.
type RemoteOptions struct {
	URL   string
	Token string
	Actor string
}

// OpenRemote asks a server.
func OpenRemote(context.Context, RemoteOptions) (Backend, error) {
	return nil, errors.New("not yet")
}
