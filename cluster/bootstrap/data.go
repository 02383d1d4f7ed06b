// Package bootstrap has what a node needs at its first boot, and what a client needs
// to reach the cluster: user data, the CA and client configurations.
package bootstrap

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"github.com/pawl-dev/pawl/cluster"
	"strings"
	"text/template"
)

// Path is the file on a node to which user data writes the document.
const Path = "/etc/pawl/node.json"

// Data is what a node needs at its first boot. User data carries it.
type Data struct {
	Home    string // URL of the server; a node sends heartbeats to Home + "/v1/nodes/heartbeat"
	HomeCA  string // PEM of the CA of the server; empty: plain HTTP, or a public certificate
	Cluster string // uuid
	Node    string // its name
	Role    cluster.Role
	Version string         // of the cluster; empty: that of the template
	Token   cluster.Secret // join token: for the first heartbeat, and to join the control node
	Control string         // worker: URL of the control node; empty: a heartbeat answer contains it
	CAHash  string         // worker: CAHash of the control node's CA
}

// bootstrapJSON is the JSON form of Bootstrap. Only here the token is readable.
type bootstrapJSON struct {
	Home    string       `json:"home"`
	HomeCA  string       `json:"homeCA,omitempty"`
	Cluster string       `json:"cluster"`
	Node    string       `json:"node"`
	Role    cluster.Role `json:"role"`
	Version string       `json:"version,omitempty"`
	Token   string       `json:"token,omitempty"`
	Control string       `json:"control,omitempty"`
	CAHash  string       `json:"caHash,omitempty"`
}

// The built-in user data. The image, or a template of the operator, decides what
// starts on a node.
const builtinBootstrap = `#cloud-config
write_files:
- path: {{.Path}}
  owner: root:root
  permissions: "0600"
  encoding: b64
  content: {{.Document}}
`

var builtinTemplate = template.Must(template.New("bootstrap").Option("missingkey=error").Parse(builtinBootstrap))

// documentPrefix precedes the document in user data, in every template.
const documentPrefix = "content: "

// Encode returns the user data: a cloud-config that writes the document, as JSON
// and base64, to Path. It begins with #cloud-config.
func (b Data) Encode() ([]byte, error) { return b.Render("") }

// Render is Encode with a text/template of the operator; empty: the built-in one.
// The template may use .Path, .Document (base64; it must follow "content: " on one
// line, or Parse does not find it) and the fields of Bootstrap; .Token prints as
// stars. CLUSTER_INVALID if the template is wrong.
func (b Data) Render(text string) ([]byte, error) {
	t := builtinTemplate
	if text != "" {
		var err error
		if t, err = template.New("bootstrap").Option("missingkey=error").Parse(text); err != nil {
			return nil, cluster.ClusterInvalid.Errorf("bootstrap template: %w", err)
		}
	}
	document, err := json.Marshal(bootstrapJSON{b.Home, b.HomeCA, b.Cluster, b.Node, b.Role, b.Version, b.Token.Reveal(), b.Control, b.CAHash})
	if err != nil {
		return nil, cluster.ClusterInvalid.Errorf("bootstrap: %w", err)
	}
	var out bytes.Buffer
	if err := t.Execute(&out, struct {
		Data
		Path, Document string
	}{b, Path, base64.StdEncoding.EncodeToString(document)}); err != nil {
		return nil, cluster.ClusterInvalid.Errorf("bootstrap template: %w", err)
	}
	return out.Bytes(), nil
}

// Parse reads user data from Encode or Render, or the bare JSON document.
// CLUSTER_INVALID.
func Parse(userData []byte) (Data, error) {
	document := bytes.TrimSpace(userData)
	if !bytes.HasPrefix(document, []byte("{")) {
		document = nil
		for line := range strings.Lines(string(userData)) {
			text, found := strings.CutPrefix(strings.TrimSpace(line), documentPrefix)
			if !found {
				continue
			}
			if raw, err := base64.StdEncoding.DecodeString(strings.Trim(text, `"' `)); err == nil && bytes.HasPrefix(raw, []byte("{")) {
				document = raw
				break
			}
		}
		if document == nil {
			return Data{}, cluster.ClusterInvalid.Errorf("user data: it holds no document of a node")
		}
	}
	var w bootstrapJSON
	if err := json.Unmarshal(document, &w); err != nil {
		return Data{}, cluster.ClusterInvalid.Errorf("user data: %w", err)
	}
	b := Data{w.Home, w.HomeCA, w.Cluster, w.Node, w.Role, w.Version, cluster.Secret(w.Token), w.Control, w.CAHash}
	if b.Home == "" || b.Cluster == "" || b.Node == "" || b.Role != cluster.Control && b.Role != cluster.Worker {
		return Data{}, cluster.ClusterInvalid.Errorf("user data: home, cluster, node and role (control or worker) are required")
	}
	return b, nil
}

// CAHash is the value that nodes pin: the hex SHA-256 of the first certificate of a
// PEM text; empty if there is none.
func CAHash(text string) string {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return ""
	}
	sum := sha256.Sum256(block.Bytes)
	return hex.EncodeToString(sum[:])
}
