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

// The vectors of section 3.4.
func TestSignatureVectors(t *testing.T) {
	const escaped, bare = "F0GgXw4MZ1vQ6mYGho04z9UlzXw=", "f6IrQcYXcgIoQ030lxnWtP3GvjI="
	if got := canonical(blue, escape); got != "size=3&apikey=example-key&command=createcontainercluster&name=blue%20team%20%7e1&response=json" {
		t.Errorf("the text is %s", got)
	}
	if got := Sign("EXAMPLE-SECRET", blue); got != escaped {
		t.Errorf("our own form is %s", got)
	}
	for signature, want := range map[string]bool{
		escaped: true, bare: true, "": false, "F0GgXw4MZ1vQ6mYGho04z9UlzXx=": false, strings.ToLower(escaped): false, "not base64": false, escaped + "A": false,
	} {
		if got := verify("EXAMPLE-SECRET", signature, blue); got != want {
			t.Errorf("%q: %v", signature, got)
		}
	}
	if verify("EXAMPLE-SECRES", escaped, blue) {
		t.Error("another secret fits")
	}
}

// Names sort raw, by code units: upper case first, and U+FF5E behind a pair of surrogates.
func TestOrderOfNames(t *testing.T) {
	got := canonical(map[string]string{"b": "1", "B": "2", "a": "3", "～": "4", "😀": "5", "Signature": "x", "é": "6"}, escape)
	if got != "b=2&a=3&b=1&é=6&😀=5&～=4" {
		t.Errorf("got %s", got)
	}
}

func TestEncoding(t *testing.T) {
	for value, want := range map[string]string{
		"AZaz09-._*": "azaz09-._*", " ": "%20", "+": "%2b", "~": "%7e", "ä/€": "%c3%a4%2f%e2%82%ac", "a=b&c": "a%3db%26c", "%": "%25", "[0].k": "%5b0%5d.k",
	} {
		if got := canonical(map[string]string{"x": value}, escape); got != "x="+want {
			t.Errorf("%q: %s, want %s", value, got, want)
		}
	}
}

// Clients that escape like a form escape `*` too.
func TestClientsThatEscapeLikeForms(t *testing.T) {
	params := map[string]string{"command": "listZones", "keyword": "a*b ~c"}
	form := strings.ReplaceAll(strings.ToLower(url.Values{"command": {"listZones"}, "keyword": {"a*b ~c"}}.Encode()), "+", "%20")
	if got := canonical(params, escapeForm); got != form {
		t.Errorf("%s, want %s", got, form)
	}
}

// Whatever is signed verifies, and with one parameter changed it does not.
func TestSignedVerifies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		params := rapid.MapOfN(rapid.StringN(1, 10, -1), rapid.String(), 1, 8).Draw(t, "params")
		secret := rapid.StringN(1, 40, -1).Draw(t, "secret")
		signature := Sign(secret, params)
		if !verify(secret, signature, params) {
			t.Fatal("it does not verify")
		}
		params["added"] += "x"
		if verify(secret, signature, params) {
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
		{"3", "2030-01-01T00:00:00+0000", false, false}, // now is past
		{"3", "2030-01-01T00:00:01+0000", true, true},
		{"3", "2030-01-01T00:00:01Z", true, true},
		{"3", "2030-01-01T01:00:01+01:00", true, true},
		{"3", "2030-01-01T01:00:01+0100", true, true},
		{"3", "2029-12-31T19:00:01-0500", true, true},
		{"3", "2030-01-01T00:00:01 0000", false, false}, // a + that was not escaped
		{"3", "2030-01-01T00:15:00Z", true, true},
		{"3", "2030-01-01T00:15:01Z", true, false},
	} {
		p := parameters{{"signatureVersion", c.version}, {"expires", c.expires}}
		if got := fresh(p, now, false); got != c.free {
			t.Errorf("version %q expires %q: %v", c.version, c.expires, got)
		}
		if got := fresh(p, now, true); got != c.enforced {
			t.Errorf("enforced, version %q expires %q: %v", c.version, c.expires, got)
		}
	}
}

func FuzzSignature(f *testing.F) {
	f.Add("command", "listZones", "name", "Blue Team ~1", "F0GgXw4MZ1vQ6mYGho04z9UlzXw=")
	f.Add("Signature", "x", "", "", "====")
	f.Fuzz(func(t *testing.T, a, av, b, bv, signature string) {
		params := map[string]string{a: av, b: bv}
		own := Sign("secret", params)
		if !verify("secret", own, params) {
			t.Errorf("%q does not verify", params)
		}
		if signature != own && len(signature) > 0 && verify("other", signature, params) && verify("secret", signature, params) {
			t.Errorf("%q verifies with two secrets", signature)
		}
		text := canonical(params, escape)
		if utf8.ValidString(a) && utf8.ValidString(b) && !utf8.ValidString(text) {
			t.Errorf("%q is no text", text)
		}
	})
}

func FuzzParameters(f *testing.F) {
	f.Add("command=listZones&Name=a+b", "p[0].key=a&p[0].value=b")
	f.Add("%zz", "=x")
	f.Add("&&a&b=%00", "nodeofferings[-1].x=1")
	create := table()
	f.Fuzz(func(t *testing.T, body, query string) {
		p, err := parameters(nil).parse(body)
		if err != nil {
			return
		}
		if p, err = p.parse(query); err != nil {
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
				if given && param.kind != list && utf8.RuneCountInString(value) > param.most() {
					t.Errorf("%s: %s is too long", c.name, param.name)
				}
			}
		}
	})
}
