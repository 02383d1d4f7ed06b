package cluster

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"strings"
	"text/template"
)

// BootstrapPath is where user data puts the document on a node.
const BootstrapPath = "/etc/pawl/node.json"

// Bootstrap is what a node must know at its first boot. It travels as user data.
type Bootstrap struct {
	Home    string // URL of the server; a node says hello to Home + "/v1/nodes/hello"
	HomeCA  string // PEM that it pins there; empty: plain HTTP, or a public certificate
	Cluster string // uuid
	Node    string // its name
	Role    Role
	Version string // of the cluster; empty: the template decides
	Token   Secret // join token: pays for the first hello, and for joining the control node
	Control string // worker: URL of the control node; empty: a hello's answer tells
	CAHash  string // worker: CAHash of the control node's CA
}

// bootstrapJSON is Bootstrap on its way: here, and only here, the token is legible.
type bootstrapJSON struct {
	Home    string `json:"home"`
	HomeCA  string `json:"homeCA,omitempty"`
	Cluster string `json:"cluster"`
	Node    string `json:"node"`
	Role    Role   `json:"role"`
	Version string `json:"version,omitempty"`
	Token   string `json:"token,omitempty"`
	Control string `json:"control,omitempty"`
	CAHash  string `json:"caHash,omitempty"`
}

// The built-in user data. What starts on a node is a matter of its image, or of
// a template of the operator's own.
const builtinBootstrap = `#cloud-config
write_files:
- path: {{.Path}}
  owner: root:root
  permissions: "0600"
  encoding: b64
  content: {{.Document}}
`

var builtinTemplate = template.Must(template.New("bootstrap").Option("missingkey=error").Parse(builtinBootstrap))

// documentMark stands before the document in user data, whatever its template.
const documentPrefix = "content: "

// Encode gives the user data: a cloud-config that writes the document, as JSON
// and base64, to BootstrapPath. It begins with #cloud-config.
func (b Bootstrap) Encode() ([]byte, error) { return b.Render("") }

// Render is Encode with a text/template of the operator's; empty means the
// built-in one. It may use .Path, .Document (base64, on one line behind
// "content: ", or Parse does not find it) and the fields of Bootstrap;
// .Token prints as stars. CLUSTER_INVALID if the template is wrong.
func (b Bootstrap) Render(text string) ([]byte, error) {
	t := builtinTemplate
	if text != "" {
		var err error
		if t, err = template.New("bootstrap").Option("missingkey=error").Parse(text); err != nil {
			return nil, ClusterInvalid.Errorf("bootstrap template: %w", err)
		}
	}
	document, err := json.Marshal(bootstrapJSON{b.Home, b.HomeCA, b.Cluster, b.Node, b.Role, b.Version, b.Token.Reveal(), b.Control, b.CAHash})
	if err != nil {
		return nil, ClusterInvalid.Errorf("bootstrap: %w", err)
	}
	var out bytes.Buffer
	if err := t.Execute(&out, struct {
		Bootstrap
		Path, Document string
	}{b, BootstrapPath, base64.StdEncoding.EncodeToString(document)}); err != nil {
		return nil, ClusterInvalid.Errorf("bootstrap template: %w", err)
	}
	return out.Bytes(), nil
}

// ParseBootstrap reads user data that Encode or Render has made, or the bare
// JSON document. CLUSTER_INVALID.
func ParseBootstrap(userData []byte) (Bootstrap, error) {
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
			return Bootstrap{}, ClusterInvalid.Errorf("user data: it holds no document of a node")
		}
	}
	var w bootstrapJSON
	if err := json.Unmarshal(document, &w); err != nil {
		return Bootstrap{}, ClusterInvalid.Errorf("user data: %w", err)
	}
	b := Bootstrap{w.Home, w.HomeCA, w.Cluster, w.Node, w.Role, w.Version, Secret(w.Token), w.Control, w.CAHash}
	if b.Home == "" || b.Cluster == "" || b.Node == "" || b.Role != Control && b.Role != Worker {
		return Bootstrap{}, ClusterInvalid.Errorf("user data: home, cluster, node and role (control or worker) are required")
	}
	return b, nil
}

// CAHash is what nodes pin: the hex SHA-256 of the first certificate of a PEM
// text, and nothing if there is none.
func CAHash(text string) string {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return ""
	}
	sum := sha256.Sum256(block.Bytes)
	return hex.EncodeToString(sum[:])
}
