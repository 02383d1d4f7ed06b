package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// The server of a call is that of --server, of --server-context, of PAWL_SERVER, of PAWL_SERVER_CONTEXT, of the current
// context, in this order; what names a local store comes before a context that is not named as loudly.
func TestServerOfACall(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Setenv("PAWL_CONTEXTS", write("contexts.yaml", "current: c\ncontexts: [{name: a, server: http://a}, {name: b, server: http://b}, {name: c, server: http://c}]\n"))
	config := write("config.yaml", "server: http://file\n")
	stores := write("stores.yaml", "dsn: file.db\n")
	for _, test := range []struct {
		verb, line, env, want string // want: the server, "" for a local store, or a part of the error
	}{
		{"get", "", "", "http://c"},
		{"get", "", "PAWL_SERVER_CONTEXT=b", "http://b"},
		{"get", "--server-context a", "PAWL_SERVER_CONTEXT=b", "http://a"},
		{"get", "--server-context a", "PAWL_SERVER=http://s", "http://a"},
		{"get", "", "PAWL_SERVER=http://s PAWL_SERVER_CONTEXT=b", "http://s"},
		{"get", "", "PAWL_SERVER=", "http://c"},
		{"get", "--server http://s", "PAWL_SERVER_CONTEXT=b", "http://s"},
		{"get", "--server http://s --server-context a", "", "two places"},
		{"get", "--config " + config, "", "http://file"},
		{"get", "--server-context a --config " + config, "", "http://a"},
		{"get", "--config " + config, "PAWL_SERVER_CONTEXT=b", "http://b"},
		{"get", "--dsn x.db", "", ""},
		{"get", "--dsn x.db", "PAWL_SERVER_CONTEXT=b", ""},
		{"get", "", "PAWL_DSN=x.db", ""},
		{"get", "--config " + stores, "", ""},
		{"get", "--server-context a --config " + stores, "", "http://a"},
		{"get", "--server-context a", "PAWL_DSN=x.db", "http://a"},
		{"get", "", "PAWL_DSN=x.db PAWL_SERVER_CONTEXT=b", "PAWL_SERVER_CONTEXT and PAWL_DSN name two places"},
		{"get", "--store sqlite", "", ""},
		{"get", "--flows f", "", ""},
		{"get", "--machines m", "", ""},
		{"get", "--machines m --server-context a", "", "two places"},
		{"get", "", "PAWL_FLOWS=", "http://c"},
		{"get", "--server-context nope", "", "no context is named nope"},
		{"check", "", "", ""},
		{"check", "", "PAWL_SERVER_CONTEXT=b", ""},
		{"check", "--server-context a", "", "http://a"}, // which the verb refuses
		{"cluster", "", "", "http://c"},
	} {
		t.Run(test.verb+" "+test.line+" "+test.env, func(t *testing.T) {
			for pair := range strings.FieldsSeq(test.env) {
				name, value, _ := strings.Cut(pair, "=")
				t.Setenv(name, value)
			}
			a := &App{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}
			root := &cobra.Command{Use: "pawl", SilenceErrors: true, SilenceUsage: true}
			f := root.PersistentFlags()
			for name, to := range map[string]*string{"server": &a.Flags.Server, "server-context": &a.Flags.ServerContext, "dsn": &a.Flags.DSN,
				"store": &a.Flags.Store, "config": &a.Flags.Config, "context": &a.Flags.Context, "kubeconfig": &a.Flags.Kubeconfig} {
				f.StringVar(to, name, "", "")
			}
			f.BoolVar(&a.Flags.Kubernetes, "kubernetes", false, "")
			f.StringSliceVar(&a.Flags.Flows, "flows", nil, "")
			f.StringSliceVar(&a.Flags.Machines, "machines", nil, "")
			for verb, group := range map[string]string{"get": "look", "check": "care", "cluster": "clusters"} {
				root.AddGroup(&cobra.Group{ID: group})
				root.AddCommand(&cobra.Command{Use: verb, GroupID: group, RunE: func(cmd *cobra.Command, _ []string) error { return a.configured(cmd) }})
			}
			root.SetArgs(append([]string{test.verb}, strings.Fields(test.line)...))
			err := root.Execute()
			got := a.Flags.Server
			if err != nil {
				got = err.Error()
			}
			if got != test.want && (test.want == "" || strings.HasPrefix(test.want, "http") || !strings.Contains(got, test.want)) {
				t.Errorf("it asks %q, want %q", got, test.want)
			}
		})
	}
}
