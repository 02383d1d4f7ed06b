package query

import (
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

var blue = map[string]string{
	"Size": "3", "apiKey": "EXAMPLE-KEY", "command": "createContainerCluster", "name": "Blue Team ~1", "response": "json",
}

// paramsOf returns parameters from names and values.
func paramsOf(params map[string]string) parameters {
	var all []pair
	for name, value := range params {
		all = append(all, pair{name, value})
	}
	return signOrder(all)
}

// Signatures of other clients.
func TestSignatureVectors(t *testing.T) {
	const escaped, bare = "F0GgXw4MZ1vQ6mYGho04z9UlzXw=", "f6IrQcYXcgIoQ030lxnWtP3GvjI="
	if got := canonical(paramsOf(blue), escape); got != "size=3&apikey=example-key&command=createcontainercluster&name=blue%20team%20%7e1&response=json" {
		t.Errorf("the text is %s", got)
	}
	if got := Sign("EXAMPLE-SECRET", blue); got != escaped {
		t.Errorf("our own form is %s", got)
	}
	for signature, want := range map[string]bool{
		escaped: true, bare: true, "": false, "F0GgXw4MZ1vQ6mYGho04z9UlzXx=": false, strings.ToLower(escaped): false, "not base64": false, escaped + "A": false,
	} {
		if got := verify("EXAMPLE-SECRET", signature, paramsOf(blue)); got != want {
			t.Errorf("%q: %v", signature, got)
		}
	}
	if verify("EXAMPLE-SECRES", escaped, paramsOf(blue)) {
		t.Error("another secret fits")
	}
}

// Names are sorted unescaped by code units: upper case first, and U+FF5E after surrogate pairs.
func TestOrderOfNames(t *testing.T) {
	got := canonical(paramsOf(map[string]string{"b": "1", "B": "2", "a": "3", "～": "4", "😀": "5", "Signature": "x", "é": "6"}), escape)
	if got != "b=2&a=3&b=1&é=6&😀=5&～=4" {
		t.Errorf("got %s", got)
	}
}

func TestEncoding(t *testing.T) {
	for value, want := range map[string]string{
		"AZaz09-._*": "azaz09-._*", " ": "%20", "+": "%2b", "~": "%7e", "ä/€": "%c3%a4%2f%e2%82%ac", "a=b&c": "a%3db%26c", "%": "%25", "[0].k": "%5b0%5d.k",
	} {
		if got := canonical(parameters{{"x", value}}, escape); got != "x="+want {
			t.Errorf("%q: %s, want %s", value, got, want)
		}
	}
}

// Clients that escape as in forms escape `*` too.
func TestClientsThatEscapeLikeForms(t *testing.T) {
	params := map[string]string{"command": "listZones", "keyword": "a*b ~c"}
	form := strings.ReplaceAll(strings.ToLower(url.Values{"command": {"listZones"}, "keyword": {"a*b ~c"}}.Encode()), "+", "%20")
	if got := canonical(paramsOf(params), escapeForm); got != form {
		t.Errorf("%s, want %s", got, form)
	}
}

// Every signature verifies, and does not if one parameter is changed.
func TestSignedVerifies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		params := rapid.MapOfN(rapid.StringN(1, 10, -1), rapid.String(), 1, 8).Draw(t, "params")
		secret := rapid.StringN(1, 40, -1).Draw(t, "secret")
		signature := Sign(secret, params)
		if !verify(secret, signature, paramsOf(params)) {
			t.Fatal("it does not verify")
		}
		params["added"] += "x"
		if verify(secret, signature, paramsOf(params)) {
			t.Fatal("it verifies with a parameter more")
		}
	})
}

func TestExpiry(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		version, expires string
		free, enforced   bool
	}{
		{"", "", true, false},
		{"", "2000-01-01T00:00:00+0000", true, false}, // only version 3 has an expiry
		{"2", "", true, false},
		{"3", "", false, false},
		{"3", "soon", false, false},
		{"3", "2030-01-01", false, false},
		{"3", "2030-01-01T00:00:00+0000", false, false}, // equal to now: expired
		{"3", "2030-01-01T00:00:01+0000", true, true},
		{"3", "2030-01-01T00:00:01Z", true, true},
		{"3", "2030-01-01T01:00:01+01:00", true, true},
		{"3", "2030-01-01T01:00:01+0100", true, true},
		{"3", "2029-12-31T19:00:01-0500", true, true},
		{"3", "2030-01-01T00:00:01 0000", false, false}, // a + that was not escaped
		{"3", "2030-01-01T00:15:00Z", true, true},
		{"3", "2030-01-01T00:15:01Z", true, false},
		{"03", "2020-01-01T00:00:00Z", false, false}, // an unknown version is refused
		{"3 ", "2020-01-01T00:00:00Z", false, false},
		{"4", "2030-01-01T00:00:01Z", false, false},
	} {
		p := parameters{{"signatureversion", c.version}, {"expires", c.expires}}
		if got := notExpired(p, now, false); got != c.free {
			t.Errorf("version %q expires %q: %v", c.version, c.expires, got)
		}
		if got := notExpired(p, now, true); got != c.enforced {
			t.Errorf("enforced, version %q expires %q: %v", c.version, c.expires, got)
		}
	}
}

// meaning parses a signed text as the API parses a request. It returns the value of each name, without the case of values.
func meaning(t testing.TB, text string) map[string]string {
	all, err := parse(nil, text)
	if err != nil {
		t.Fatalf("the signed text %q cannot be read: %v", text, err)
	}
	m := map[string]string{}
	for _, one := range all {
		if other, twice := m[one.name]; twice && other != one.value {
			t.Fatalf("the signed text %q has two values of %s", text, one.name)
		}
		m[one.name] = one.value
	}
	return m
}

// lowerASCII lowers the ASCII letters of a value, as the signature does: all other letters are escaped.
func lowerASCII(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// FuzzSignature: the meaning of every request equals that of its signed text, in each
// variant; so two requests with the same signature mean the same.
func FuzzSignature(f *testing.F) {
	f.Add("command=listZones&name=Blue+Team+~1", "F0GgXw4MZ1vQ6mYGho04z9UlzXw=")
	f.Add("Signature=x&=", "====")
	f.Add("command=x&response%3Djson%26signatureversion=3&expires=2000-01-01T00:00:00Z", "")
	f.Add("command=x&s%C4%B0gnatureversion=3&NAME=a&name=a*b", "AAAA")
	f.Add("%F0%9F%98%80=1&%EF%BD%9E=2&%E2%84%AA=3&k=4", "")
	f.Fuzz(func(t *testing.T, query, signature string) {
		sent, err := parse(nil, query)
		if err != nil {
			return
		}
		p, err := normalize(sent)
		if err != nil {
			return
		}
		for _, form := range []func(byte) bool{escape, escapeNoTilde, escapeForm} {
			signed := meaning(t, canonical(p, form))
			for name, value := range signed {
				if got := p.get(name); lowerASCII(got) != value {
					t.Errorf("%q: %s is signed as %q and means %q", query, name, value, got)
				}
			}
			for _, one := range p {
				if _, ok := signed[one.name]; !ok && one.name != "signature" {
					t.Errorf("%q: %q is not signed", query, one.name)
				}
			}
		}
		params := map[string]string{}
		for _, one := range sent {
			params[one.name] = one.value
		}
		own := Sign("secret", params)
		if !verify("secret", own, p) {
			t.Errorf("%q does not verify", query)
		}
		if signature != own && verify("other", signature, p) && verify("secret", signature, p) {
			t.Errorf("%q verifies with two secrets", query)
		}
	})
}

func FuzzParameters(f *testing.F) {
	f.Add("command=listZones&Name=a+b", "p[0].key=a&p[0].value=b")
	f.Add("%zz", "=x")
	f.Add("&&a&b=%00", "nodeofferings[-1].x=1")
	create := table()
	f.Fuzz(func(t *testing.T, body, query string) {
		sent, err := parse(nil, body)
		if err != nil {
			return
		}
		if sent, err = parse(sent, query); err != nil {
			return
		}
		p, err := normalize(sent)
		if err != nil {
			return
		}
		for _, one := range p {
			if !utf8.ValidString(one.name) || !utf8.ValidString(one.value) || one.name == "" {
				t.Fatalf("%q", one)
			}
		}
		for _, c := range create {
			v, err := c.check(p)
			if err != nil {
				continue
			}
			for _, param := range c.params {
				value, given := v.text[param.name]
				if param.required && value == "" {
					t.Errorf("%s: %s is missing", c.name, param.name)
				}
				if given && param.kind != list && utf8.RuneCountInString(value) > param.maxLength() {
					t.Errorf("%s: %s is too long", c.name, param.name)
				}
			}
		}
	})
}
