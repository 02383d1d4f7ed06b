package kube

import (
	"crypto/x509"
	"testing"
)

func TestPeerRules(t *testing.T) {
	root := newAuthority(t, "ca")
	leaf, _ := root.leaf(t, "fdb-1")
	chain := []*x509.Certificate{leaf, root.cert}
	for text, want := range map[string]bool{
		"":                                    true,
		"Check.Valid=1":                       true,
		"Check.Valid=1,Check.Unexpired=0":     true,
		"S.CN=fdb-1":                          true,
		"CN=fdb-1":                            true,
		"Subject.CN=fdb-1":                    true,
		"S.CN=fdb":                            false,
		"S.CN>=fdb":                           true,
		"S.CN>=db":                            false,
		"S.CN<=-1":                            true,
		"S.CN<=-2":                            false,
		`S.O=fdb\, inc`:                       true,
		`S.O=fdb\2C\20inc`:                    true,
		"S.OU=a":                              false, // it has two
		"S.L=x":                               false,
		"I.CN=ca":                             true,
		"Issuer.CN=fdb-1":                     false,
		"R.O=root":                            true,
		"Root.CN=fdb-1":                       false,
		"S.CN=fdb-1,R.CN=other":               false,
		"S.CN=other|S.CN=fdb-1":               true,
		"S.CN=other|S.CN=another":             false,
		"S.subjectAltName=DNS:fdb-1":          true,
		"S.subjectAltName<=DNS:.example.com":  true,
		"S.subjectAltName>=DNS:x.":            true,
		"S.subjectAltName=DNS:y.example.com":  false,
		"S.subjectAltName=IP:10.0.0.9":        true,
		"S.subjectAltName=EMAIL:fdb-1":        false,
		"R.subjectAltName=DNS:x.example.com":  false,
		"I.subjectAltName>=DNS:x.example.com": false,
	} {
		rules, err := parsePeerRules(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := rules.accept(chain); got != want {
			t.Errorf("%s accepts it: %v", text, got)
		}
	}
	for _, text := range []string{"CN", "S.CN=", "X.CN=a", "S.X=a", "Check.Valid=2", "Check.Other=1", "S.CN=a|", "S.CN=a,", `S.CN=a\`, `S.CN=a\zz`, "=", "<=a"} {
		if rules, err := parsePeerRules(text); err == nil {
			t.Errorf("%q is read as %+v", text, rules)
		}
	}
	if rules, err := parsePeerRules("S.CN=a|Check.Valid=0"); err != nil || !rules.unchecked() {
		t.Errorf("%+v, %v", rules, err)
	}
}
