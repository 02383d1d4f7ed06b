package cloudstack

import (
	"testing"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/cluster/cloudsign"
)

// meaning parses a signed text as the API parses a request. It returns the value of each name, without the case of values.
func meaning(t testing.TB, text string) map[string]string {
	all, err := parse(nil, text)
	if err != nil {
		t.Fatalf("the signed text %q cannot be read: %v", text, err)
	}
	m := map[string]string{}
	for _, one := range all {
		if other, twice := m[one.Name]; twice && other != one.Value {
			t.Fatalf("the signed text %q has two values of %s", text, one.Name)
		}
		m[one.Name] = one.Value
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
		for _, form := range cloudsign.Forms {
			signed := meaning(t, cloudsign.Params(p).Text(form))
			for name, value := range signed {
				if got := p.get(name); lowerASCII(got) != value {
					t.Errorf("%q: %s is signed as %q and means %q", query, name, value, got)
				}
			}
			for _, one := range p {
				if _, ok := signed[one.Name]; !ok && one.Name != "signature" {
					t.Errorf("%q: %q is not signed", query, one.Name)
				}
			}
		}
		params := map[string]string{}
		for _, one := range sent {
			params[one.Name] = one.Value
		}
		own := cloudsign.Sign("secret", params)
		if !cloudsign.Verify("secret", own, cloudsign.Params(p)) {
			t.Errorf("%q does not verify", query)
		}
		if signature != own && cloudsign.Verify("other", signature, cloudsign.Params(p)) && cloudsign.Verify("secret", signature, cloudsign.Params(p)) {
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
			if !utf8.ValidString(one.Name) || !utf8.ValidString(one.Value) || one.Name == "" {
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
