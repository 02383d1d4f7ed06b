package controlplane

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// Request is an answered request of a user of Options.Audit: a line of the audit log.
type Request struct {
	User struct {
		Username string `json:"username"`
	} `json:"user"`
	Verb      string `json:"verb"` // as in roles: watch, not get
	URI       string `json:"requestURI"`
	UserAgent string `json:"userAgent"`
	Object    struct {
		Group       string `json:"apiGroup"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	Response struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"responseStatus"`
	Annotations map[string]string `json:"annotations"`
}

// String returns the request as one line.
func (r Request) String() string {
	return fmt.Sprintf("%d %s %s: %s", r.Response.Code, r.Verb, r.URI, r.Response.Message)
}

const auditPolicy = `{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": [
  {"level": "Metadata", "users": %s},
  {"level": "None"}
]}`

// audit enables the audit log of the API server for the users, or by the policy.
func (p *Plane) audit(api *envtest.APIServer) error {
	if len(p.o.Audit) == 0 && p.o.AuditPolicy == "" {
		return nil
	}
	users, err := json.Marshal(p.o.Audit)
	if err != nil {
		return err
	}
	policy := p.o.AuditPolicy
	if policy == "" {
		policy = fmt.Sprintf(auditPolicy, users)
	}
	flags := api.Configure()
	flags.Set("audit-policy-file", p.path("audit-policy.json"))
	flags.Set("audit-log-path", p.path("audit.log"))
	flags.Set("audit-log-mode", "blocking") // an answered request is in the log
	return os.WriteFile(p.path("audit-policy.json"), []byte(policy), 0o644)
}

// AuditLog is the path of the audit log: an event of audit.k8s.io a line.
func (p *Plane) AuditLog() string { return p.path("audit.log") }

// Requests returns the answered requests of the users of Options.Audit, in order. A watch
// appears at its beginning and at its end.
func (p *Plane) Requests() (all []Request, err error) {
	file, err := os.Open(p.AuditLog())
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadString('\n')
		if err != nil || strings.TrimSpace(line) == "" {
			return all, nil // ignore an incomplete last line
		}
		var r Request
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			return nil, fmt.Errorf("a line of the audit log: %w", err)
		}
		all = append(all, r)
	}
}
