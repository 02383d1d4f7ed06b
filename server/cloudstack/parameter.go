package cloudstack

import (
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/account"
	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/cloudsign"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/server/admission"
	"github.com/pawl-dev/pawl/server/route"
)

// maxParameters limits the work for a request before authentication.
const maxParameters = 1000

// parameters are the parameters of a request in their signed form: in the order of the
// signed text, with names in lower case. All code reads this list, so that no unsigned
// value has an effect.
type parameters cloudsign.Params

// read returns the parameters of the form body, followed by those of the query string.
// REQUEST_MALFORMED, and the faults of admission.ReadBody.
func read(r *http.Request) (parameters, error) {
	var all []cloudsign.Param
	if r.Method == http.MethodPost {
		body, err := admission.ReadBody(r)
		if err != nil {
			return nil, err
		}
		if len(body) > 0 {
			media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
			if err != nil || media != "application/x-www-form-urlencoded" {
				return nil, route.Malformed.Errorf("the body is not a form: its Content-Type is %q", r.Header.Get("Content-Type"))
			}
		}
		if all, err = parse(all, string(body)); err != nil {
			return nil, err
		}
	}
	all, err := parse(all, r.URL.RawQuery)
	if err != nil {
		return nil, err
	}
	return normalize(all)
}

// parse appends the parameters of a query string. REQUEST_MALFORMED.
func parse(all []cloudsign.Param, text string) ([]cloudsign.Param, error) {
	for part := range strings.SplitSeq(text, "&") {
		if part == "" {
			continue
		}
		name, value, _ := strings.Cut(part, "=")
		name, bad := url.QueryUnescape(name)
		value, worse := url.QueryUnescape(value)
		switch {
		case bad != nil || worse != nil:
			return nil, route.Malformed.Errorf("a parameter has an invalid percent-encoding")
		case name == "":
			return nil, route.Malformed.Errorf("a parameter has no name")
		case !utf8.ValidString(name) || !utf8.ValidString(value):
			return nil, route.Malformed.Errorf("a parameter is not UTF-8")
		case strings.ContainsFunc(name, ambiguous): // names are signed without escaping
			return nil, route.Malformed.Errorf("the parameter name %q holds &, = or a control character", name)
		case len(all) == maxParameters:
			return nil, route.Malformed.Errorf("there are more than %d parameters", maxParameters)
		}
		all = append(all, cloudsign.Param{Name: name, Value: value})
	}
	return all, nil
}

// ambiguous reports characters that would end a name in the signed text.
func ambiguous(c rune) bool { return c == '&' || c == '=' || unicode.IsControl(c) }

// normalize returns the parameters of a request. Of two with the same name the later
// one counts. Names that differ only in case are one parameter, but both are signed;
// the signature does not cover their order, so their values must be equal.
// REQUEST_MALFORMED.
func normalize(sent []cloudsign.Param) (parameters, error) {
	p := parameters(cloudsign.Order(sent))
	values := make(map[string]string, len(p))
	for _, one := range p {
		if other, twice := values[one.Name]; twice && other != one.Value {
			return nil, route.Malformed.Errorf("the parameter %s was sent in two spellings with different values", one.Name)
		}
		values[one.Name] = one.Value
	}
	return p, nil
}

// get returns the value of a name in lower case; "" if it is absent.
func (p parameters) get(name string) string {
	for _, one := range slices.Backward(p) {
		if one.Name == name {
			return one.Value
		}
	}
	return ""
}

// fields splits a comma-separated list.
func fields(text string) []string {
	var list []string
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			list = append(list, item)
		}
	}
	return list
}

// kind is the type of a parameter, with its name in listApis.
type kind string

const (
	text    kind = "string"
	id      kind = "uuid"
	number  kind = "integer"
	boolean kind = "boolean"
	list    kind = "list"
	mapping kind = "map"
)

// parameter describes a parameter of a command.
type parameter struct {
	name         string
	alias        string // another name
	kind         kind
	description  string
	required     bool
	length       int    // of a string or of an item of a list; 0: 255
	uuid         bool   // must be a UUID
	clientChosen bool   // with uuid: the caller chooses it, so it need not exist
	refused      string // why any value is refused
	related      string
}

const defaultLength = 255

func (p parameter) maxLength() int {
	if p.length > 0 {
		return p.length
	}
	return defaultLength
}

// values are the checked parameters of a command, by name.
type values struct {
	text map[string]string
	maps map[string]map[int]map[string]string
}

// check returns the parameters of a command. PARAMETER_WRONG, MAP_INDEX_WRONG. It
// refuses unknown parameters: without them the request would mean something else.
func (c *command) check(sent parameters) (values, error) {
	v := values{text: map[string]string{}, maps: map[string]map[int]map[string]string{}}
	for _, p := range c.params {
		if p.kind == mapping {
			m, err := c.mapOf(p, sent)
			if err != nil {
				return v, err
			}
			if len(m) > 0 {
				v.maps[p.name] = m
			}
		}
		value := sent.get(p.name)
		if value == "" && p.alias != "" {
			value = sent.get(p.alias)
		}
		if value == "" && p.required {
			return v, c.wrong(p.name, "it is missing")
		}
		if value == "" && len(v.maps[p.name]) == 0 {
			continue
		}
		if p.refused != "" && !(p.kind == number && value == "0") {
			return v, c.wrong(p.name, "%s", p.refused)
		}
		if why := p.validate(value); why != "" {
			return v, c.wrong(p.name, "%s", why)
		}
		if p.uuid && !isUUID(value) {
			if p.clientChosen {
				return v, c.wrong(p.name, "%q is not an id of the form 8-4-4-4-12", value)
			}
			return v, ParameterWrong.Errorf("%s: %s", c.name, notFoundText(p.name, value))
		}
		v.text[p.name] = value
	}
	return v, c.unknown(sent)
}

// protocolParameters are the parameters of every request, and those that clients send
// for their own use: filter and exclude select columns, _ avoids caches.
var protocolParameters = map[string]bool{
	"command": true, "response": true, "apikey": true, "signature": true, "signatureversion": true, "expires": true,
	"sessionkey": true, "filter": true, "exclude": true, "_": true,
}

// unknown refuses the first parameter with a value that the command does not have.
func (c *command) unknown(sent parameters) error {
	for _, one := range sent {
		name, _, _ := strings.Cut(strings.ToLower(one.Name), "[")
		switch {
		case one.Value == "" || protocolParameters[name] || c.parameter(name) != nil:
		case name == "projectid":
			return c.wrong(name, "there are no projects here")
		default:
			return c.wrong(name, "the command has no such parameter; see listApis")
		}
	}
	return nil
}

// parameter finds a parameter by one of its names; nil if there is none.
func (c *command) parameter(name string) *parameter {
	for i := range c.params {
		if p := &c.params[i]; name != "" && (p.name == name || p.alias == name) {
			return p
		}
	}
	return nil
}

// otherNames maps a parameter's name in the service or in one family to its name in the other.
var otherNames = map[string]string{"versionid": "kubernetesversionid", "kubernetesversionid": "versionid", "node": "nodeids"}

// faultParameter returns the parameter of this command that a fault of the service is
// about, by the name in the request; empty if it is about none.
func (c *call) faultParameter(err error) string {
	name, _ := fault.Details(err)["parameter"].(string)
	if name == "" {
		name = map[*fault.Kind]string{
			cluster.NotFound: "id", cluster.JobNotFound: "jobid", cluster.JobReused: "customjobid",
			account.DomainNotFound: "domainid", account.NotFound: "account", account.Invalid: "account",
		}[fault.Of(err)]
	}
	p := c.command.parameter(name)
	if p == nil && name == "id" {
		p = c.command.parameter("clusterid")
	}
	if p == nil {
		p = c.command.parameter(otherNames[name])
	}
	if p == nil {
		return ""
	}
	if c.sent.get(p.name) == "" && c.sent.get(p.alias) != "" {
		return p.alias
	}
	return p.name
}

// validate returns what is wrong with a value; "" if nothing is.
func (p parameter) validate(value string) string {
	items := []string{value}
	if p.kind == list {
		items = fields(value)
	}
	for _, item := range items {
		if strings.ContainsFunc(item, unicode.IsControl) {
			return "it contains a control character"
		}
		if n := utf8.RuneCountInString(item); n > p.maxLength() {
			return "it has " + strconv.Itoa(n) + " characters, at most " + strconv.Itoa(p.maxLength()) + " are allowed"
		}
	}
	switch p.kind {
	case number:
		if _, err := strconv.ParseInt(value, 10, 32); err != nil {
			return strconv.Quote(value) + " is not a number"
		}
	case boolean:
		if !strings.EqualFold(value, "true") && !strings.EqualFold(value, "false") {
			return strconv.Quote(value) + " is neither true nor false"
		}
	}
	return ""
}

// isUUID reports whether a text has the form 8-4-4-4-12 of hexadecimal digits.
func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i, c := range []byte(s) {
		switch i {
		case 8, 13, 18, 23:
			if c != '-' {
				return false
			}
		default:
			if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F') {
				return false
			}
		}
	}
	return true
}

const maxIndex = 999

// mapOf returns a map parameter, which is sent as name[0].key=value. MAP_INDEX_WRONG.
func (c *command) mapOf(p parameter, sent parameters) (map[int]map[string]string, error) {
	m := map[int]map[string]string{}
	for _, one := range sent {
		rest, ok := strings.CutPrefix(one.Name, p.name+"[")
		if !ok {
			continue
		}
		index, key, ok := strings.Cut(rest, "]")
		n, err := strconv.ParseUint(index, 10, 16)
		if !ok || err != nil || n > maxIndex {
			return nil, MapIndexWrong.Errorf("%s: parameter %s: %q is not an index from 0 to %d", c.name, p.name, index, maxIndex)
		}
		if m[int(n)] == nil {
			m[int(n)] = map[string]string{}
		}
		m[int(n)][strings.TrimPrefix(key, ".")] = one.Value
	}
	return m, nil
}

// wrong returns the fault of a parameter.
func (c *command) wrong(name, format string, args ...any) error {
	return ParameterWrong.Errorf("%s: parameter %s: "+format, append([]any{c.name, name}, args...)...)
}

func (v values) has(name string) bool { _, ok := v.text[name]; return ok }

// number returns a number; 0 if it is absent.
func (v values) number(name string) int {
	n, _ := strconv.Atoi(v.text[name]) // checked
	return n
}

func (v values) boolean(name string) bool { return strings.EqualFold(v.text[name], "true") }

func (v values) list(name string) []string { return fields(v.text[name]) }
