package kubelet

import "testing"

// The rule of the package's documentation, word by word.
func TestMappingRewritesWholePathsOnly(t *testing.T) {
	m := mapping{}.with("/data", "/r/data").with("/data/conf/", "/r/data/conf").with("/pawl", "/bin/pawl").with("/", "/r").with("data", "/r")
	for in, want := range map[string]string{
		"/data":                     "/r/data",
		"/data/":                    "/r/data/",
		"/data/pg/16":               "/r/data/pg/16",
		"/data/conf/x":              "/r/data/conf/x",
		"--dir=/data":               "--dir=/r/data",
		"cd /data; ls '/data/x'":    "cd /r/data; ls '/r/data/x'",
		"/data:/pawl:/usr":          "/r/data:/bin/pawl:/usr",
		"a=/data,b=/data":           "a=/r/data,b=/r/data",
		"/database":                 "/database",
		"/data-2":                   "/data-2",
		"/data.old":                 "/data.old",
		"/srv/data":                 "/srv/data",
		"x/data":                    "x/data",
		"-D/data":                   "-D/data",
		"//data":                    "//data",
		"http://h/data":             "http://h/data",
		"/pawl server":              "/bin/pawl server",
		"/":                         "/",
		"":                          "",
		"nothing":                   "nothing",
		"$(cat /data/a)/data/b":     "$(cat /r/data/a)/r/data/b",
		"postgres://x@h:5/d?p=/dat": "postgres://x@h:5/d?p=/dat",
	} {
		if got := m.rewrite(in); got != want {
			t.Errorf("%q becomes %q, not %q", in, got, want)
		}
	}
}

func TestExpandKnowsWhatKubernetesKnows(t *testing.T) {
	inner, outer := map[string]string{"A": "1", "B": "$(A)"}, map[string]string{"A": "2", "C": "3"}
	for in, want := range map[string]string{
		"$(A)":      "1",
		"$(C)/$(A)": "3/1",
		"$(B)":      "$(A)",
		"$(D)":      "$(D)",
		"$$(A)":     "$(A)",
		"$$$(A)":    "$1",
		"$A":        "$A",
		"$":         "$",
		"$(A":       "$(A",
		"a$(A)b":    "a1b",
	} {
		if got := expand(in, inner, outer); got != want {
			t.Errorf("%q becomes %q, not %q", in, got, want)
		}
	}
}

func TestImageCommandStandsInAsAnEntryPointDoes(t *testing.T) {
	image := Image{Command: []string{"server"}, Args: []string{"--default"}}
	for _, c := range []struct{ command, args, want []string }{
		{nil, nil, []string{"server", "--default"}},
		{nil, []string{"--mine"}, []string{"server", "--mine"}},
		{[]string{"sh"}, nil, []string{"sh"}},
		{[]string{"sh"}, []string{"-c", "x"}, []string{"sh", "-c", "x"}},
	} {
		got := image.argv(c.command, c.args)
		if len(got) != len(c.want) {
			t.Fatalf("%v %v gives %v, not %v", c.command, c.args, got, c.want)
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("%v %v gives %v, not %v", c.command, c.args, got, c.want)
			}
		}
	}
}
