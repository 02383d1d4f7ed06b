package query

import (
	"maps"
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
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/server"
)

// maxParameters bounds the work that a request may cause before it is known who sent it.
const maxParameters = 1000

// pair is a parameter as it was sent.
type pair struct{ name, value string }

// parameters are those of a request, as they are signed: in the order of the
// signed text, with their names in lower case as there. All that reads them reads
// this list, so that nothing is meant that was not signed.
type parameters []pair

// read takes the parameters of the form body and of the query string: the
// latter come after the former. REQUEST_MALFORMED and those of server.ReadBody.
func read(r *http.Request) (parameters, error) {
	var all []pair
	if r.Method == http.MethodPost {
		body, err := server.ReadBody(r)
		if err != nil {
			return nil, err
		}
		if len(body) > 0 {
			media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
			if err != nil || media != "application/x-www-form-urlencoded" {
				return nil, server.Malformed.Errorf("the body is no form: its Content-Type is %q", r.Header.Get("Content-Type"))
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
	return settle(all)
}

// parse appends the parameters of a query string. REQUEST_MALFORMED.
func parse(all []pair, text string) ([]pair, error) {
	for part := range strings.SplitSeq(text, "&") {
		if part == "" {
			continue
		}
		name, value, _ := strings.Cut(part, "=")
		name, bad := url.QueryUnescape(name)
		value, worse := url.QueryUnescape(value)
		switch {
		case bad != nil || worse != nil:
			return nil, server.Malformed.Errorf("a parameter is not percent-encoded as it should be")
		case name == "":
			return nil, server.Malformed.Errorf("a parameter has no name")
		case !utf8.ValidString(name) || !utf8.ValidString(value):
			return nil, server.Malformed.Errorf("a parameter is not UTF-8")
		case strings.ContainsFunc(name, ambiguous): // names are signed as they are
			return nil, server.Malformed.Errorf("the parameter name %q holds &, = or a control character", name)
		case len(all) == maxParameters:
			return nil, server.Malformed.Errorf("there are more than %d parameters", maxParameters)
		}
		all = append(all, pair{name, value})
	}
	return all, nil
}

// ambiguous reports characters that would end a name in the signed text.
func ambiguous(c rune) bool { return c == '&' || c == '=' || unicode.IsControl(c) }

// settle makes parameters of what was sent. Of two with the same name the later
// one is meant. Names that differ in case are one parameter and signed each: the
// signature does not cover which of them came later, so they must agree. REQUEST_MALFORMED.
func settle(sent []pair) (parameters, error) {
	p := inOrder(sent)
	values := make(map[string]string, len(p))
	for _, one := range p {
		if other, twice := values[one.name]; twice && other != one.value {
			return nil, server.Malformed.Errorf("the parameter %s is sent in two spellings with two values", one.name)
		}
		values[one.name] = one.value
	}
	return p, nil
}

// inOrder sorts parameters as they are signed: by their names as they were sent.
func inOrder(sent []pair) parameters {
	last := make(map[string]string, len(sent))
	for _, one := range sent {
		last[one.name] = one.value
	}
	p := make(parameters, 0, len(last))
	for _, name := range slices.SortedFunc(maps.Keys(last), byCodeUnit) {
		p = append(p, pair{strings.ToLower(name), last[name]})
	}
	return p
}

// get gives what is meant by a name, which is in lower case; "" if it is not there.
func (p parameters) get(name string) string {
	for _, one := range slices.Backward(p) {
		if one.name == name {
			return one.value
		}
	}
	return ""
}

// fields splits a comma separated list.
func fields(text string) []string {
	var list []string
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			list = append(list, item)
		}
	}
	return list
}

// kind is the type of a parameter, as listApis names it.
type kind string

const (
	text    kind = "string"
	id      kind = "uuid"
	number  kind = "integer"
	boolean kind = "boolean"
	list    kind = "list"
	mapping kind = "map"
)

// Parameter is a row of a command's parameters.
type parameter struct {
	name     string
	also     string // another name of the same
	kind     kind
	about    string
	required bool
	length   int    // of a string or of an item of a list; 0: 255
	uuid     bool   // an id of this server: it has the form of one
	ours     bool   // with uuid: the caller chooses it
	refused  string // why any value is refused
	related  string
}

const defaultLength = 255

func (p parameter) most() int {
	if p.length > 0 {
		return p.length
	}
	return defaultLength
}

// values are the parameters of a command, checked and by name.
type values struct {
	text map[string]string
	maps map[string]map[int]map[string]string
}

// check finds a command's parameters among those sent: PARAMETER_WRONG,
// MAP_INDEX_WRONG. A parameter that the command does not have is refused: to
// leave it out would answer another request than the one that was sent.
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
		if value == "" && p.also != "" {
			value = sent.get(p.also)
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
		if why := p.judge(value); why != "" {
			return v, c.wrong(p.name, "%s", why)
		}
		if p.uuid && !isUUID(value) {
			if p.ours {
				return v, c.wrong(p.name, "%q is no id of the form 8-4-4-4-12", value)
			}
			return v, ParameterWrong.Errorf("%s: %s", c.name, absent(p.name, value))
		}
		v.text[p.name] = value
	}
	return v, c.unknown(sent)
}

// ofTheProtocol are parameters of every request, and what clients send along
// for themselves: filter and exclude choose columns, _ passes by caches.
var ofTheProtocol = map[string]bool{
	"command": true, "response": true, "apikey": true, "signature": true, "signatureversion": true, "expires": true,
	"sessionkey": true, "filter": true, "exclude": true, "_": true,
}

// unknown refuses the first parameter that has a value and is none of the command's.
func (c *command) unknown(sent parameters) error {
	for _, one := range sent {
		name, _, _ := strings.Cut(strings.ToLower(one.name), "[")
		switch {
		case one.value == "" || ofTheProtocol[name] || c.parameter(name) != nil:
		case name == "projectid":
			return c.wrong(name, "there are no projects here")
		default:
			return c.wrong(name, "the command has no such parameter; listApis tells which it has")
		}
	}
	return nil
}

// parameter finds a parameter by one of its names; nil if there is none.
func (c *command) parameter(name string) *parameter {
	for i := range c.params {
		if p := &c.params[i]; name != "" && (p.name == name || p.also == name) {
			return p
		}
	}
	return nil
}

// sameParameter are names that the service and the two families of commands have for one thing.
var sameParameter = map[string]string{"versionid": "kubernetesversionid", "kubernetesversionid": "versionid", "node": "nodeids"}

// blamed is the parameter of this command, by the name that was sent, that a
// fault of the service speaks of; empty if it speaks of none.
func (c *call) blamed(err error) string {
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
		p = c.command.parameter(sameParameter[name])
	}
	if p == nil {
		return ""
	}
	if c.sent.get(p.name) == "" && c.sent.get(p.also) != "" {
		return p.also
	}
	return p.name
}

// judge says what is wrong with a value; "" if nothing is.
func (p parameter) judge(value string) string {
	items := []string{value}
	if p.kind == list {
		items = fields(value)
	}
	for _, item := range items {
		if strings.ContainsFunc(item, unicode.IsControl) {
			return "it contains a control character"
		}
		if n := utf8.RuneCountInString(item); n > p.most() {
			return "it has " + strconv.Itoa(n) + " characters, at most " + strconv.Itoa(p.most()) + " are allowed"
		}
	}
	switch p.kind {
	case number:
		if _, err := strconv.ParseInt(value, 10, 32); err != nil {
			return strconv.Quote(value) + " is no number"
		}
	case boolean:
		if !strings.EqualFold(value, "true") && !strings.EqualFold(value, "false") {
			return strconv.Quote(value) + " is neither true nor false"
		}
	}
	return ""
}

// isUUID reports the form 8-4-4-4-12 of hexadecimal digits.
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

// mapOf collects name[0].key=value.
func (c *command) mapOf(p parameter, sent parameters) (map[int]map[string]string, error) {
	m := map[int]map[string]string{}
	for _, one := range sent {
		rest, ok := strings.CutPrefix(one.name, p.name+"[")
		if !ok {
			continue
		}
		index, key, ok := strings.Cut(rest, "]")
		n, err := strconv.ParseUint(index, 10, 16)
		if !ok || err != nil || n > maxIndex {
			return nil, MapIndexWrong.Errorf("%s: parameter %s: %q is no index from 0 to %d", c.name, p.name, index, maxIndex)
		}
		if m[int(n)] == nil {
			m[int(n)] = map[string]string{}
		}
		m[int(n)][strings.TrimPrefix(key, ".")] = one.value
	}
	return m, nil
}

// wrong is the fault of a parameter.
func (c *command) wrong(name, format string, args ...any) error {
	return ParameterWrong.Errorf("%s: parameter %s: "+format, append([]any{c.name, name}, args...)...)
}

func (v values) has(name string) bool { _, ok := v.text[name]; return ok }

// number gives a number; 0 if it is not there.
func (v values) number(name string) int {
	n, _ := strconv.Atoi(v.text[name]) // checked
	return n
}

func (v values) boolean(name string) bool { return strings.EqualFold(v.text[name], "true") }

func (v values) list(name string) []string { return fields(v.text[name]) }
