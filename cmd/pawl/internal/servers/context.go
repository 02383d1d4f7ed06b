package servers

import (
	"crypto/rand"
	"fmt"
	"path/filepath"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/contextfile"
)

// devContext is the name under which a pawl dev is found.
const devContext = "dev"

// entry is the context that a pawl dev writes for itself, and takes away at its end.
type entry struct{ process string }

// enter writes the entry, and returns what people are told about it. A server runs without one if it cannot be written.
func (e *entry) enter(url string, o serverOptions) string {
	c := contextfile.Context{Name: devContext, Server: url, Process: rand.Text()}
	for to, path := range map[*string]string{&c.TokenFile: o.tokenFile, &c.CertificateAuthority: o.cert} {
		if path == "" {
			continue
		}
		whole, err := filepath.Abs(path)
		if err != nil {
			return "none: " + err.Error()
		}
		*to = whole
	}
	var entered bool
	var current string
	err := contextfile.Update(contextfile.Path(), func(f *contextfile.File) error {
		entered = f.Enter(c)
		current = f.Current
		return nil
	})
	switch {
	case err != nil:
		return "none: " + err.Error()
	case !entered:
		return fmt.Sprintf("none: %s is one of yours; export PAWL_SERVER=%s", devContext, url)
	}
	e.process = c.Process
	if current == devContext {
		return devContext + ", the current one: pawl get asks this server"
	}
	return fmt.Sprintf("%s; %s is current: pawl context use %s, or --server-context %s", devContext, current, devContext, devContext)
}

// leave takes the entry away, unless another has taken its place.
func (e *entry) leave() error {
	if e.process == "" {
		return nil
	}
	return contextfile.Update(contextfile.Path(), func(f *contextfile.File) error {
		f.Leave(e.process)
		return nil
	})
}
