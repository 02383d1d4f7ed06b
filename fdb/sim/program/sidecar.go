package program

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// sidecar is the HTTP sidecar of the split image, with what it is given. Source: packaging/docker/sidecar.py at 7.1.67,
// 7.3.69 and 7.4.6, Config.
type sidecar struct {
	*Process

	init                                   bool
	bind, input, output, conf, mainVersion string
	mainConfDir, family                    string
	tls                                    bool
	certificate, authority, key, rules     string
	files, binaries, libraries, notEmpty   texts
	variables                              texts

	version       string // of the sidecar
	names         []string
	substitutions map[string]*string // nil: the variable is not set
}

func (c *sidecar) flags() *flag.FlagSet {
	s := flag.NewFlagSet("sidecar.py", flag.ContinueOnError)
	s.SetOutput(c.Stderr)
	s.BoolVar(&c.init, "init-mode", false, "copy the files once and end")
	s.StringVar(&c.bind, "bind-address", "", "IP and port to listen on")
	s.BoolVar(&c.tls, "tls", false, "take connections with TLS only")
	s.StringVar(&c.certificate, "tls-certificate-file", "", "or FDB_TLS_CERTIFICATE_FILE")
	s.StringVar(&c.authority, "tls-ca-file", "", "or FDB_TLS_CA_FILE")
	s.StringVar(&c.key, "tls-key-file", "", "or FDB_TLS_KEY_FILE")
	s.StringVar(&c.rules, "tls-verify-peers", "", "or FDB_TLS_VERIFY_PEERS")
	s.StringVar(&c.input, "input-dir", "/var/input-files", "folder of the config map")
	s.StringVar(&c.output, "output-dir", "/var/output-files", "folder for what is generated")
	s.Var(&c.variables, "substitute-variable", "one more variable for the configuration")
	s.Var(&c.files, "copy-file", "file to copy")
	s.Var(&c.binaries, "copy-binary", "program to copy")
	s.Var(&c.libraries, "copy-library", "version of the client library to copy")
	s.StringVar(&c.conf, "input-monitor-conf", "", "name of the template of fdbmonitor.conf")
	s.StringVar(&c.mainVersion, "main-container-version", "", "version of the main container")
	s.StringVar(&c.family, "public-ip-family", "", "take the first IP of this family from lists")
	s.StringVar(&c.mainConfDir, "main-container-conf-dir", "/var/dynamic-conf", "where the main container finds what is generated")
	s.Var(&c.notEmpty, "require-not-empty", "file that must be there and not be empty")
	return s
}

// sidecar copies files and then serves HTTP.
func (p *Process) sidecar(ctx context.Context) int {
	c := &sidecar{Process: p}
	return c.run(ctx)
}

func (c *sidecar) run(ctx context.Context) int {
	c.sourceEnvironment()
	if c.flags().Parse(c.Args[1:]) != nil {
		return 2
	}
	if err := c.complete(); err != nil {
		c.errorf("%v\n", err)
		return exitError
	}
	for _, name := range []string{"SIDECAR_CONF_DIR", "INPUT_DIR", "OUTPUT_DIR", "COPY_ONCE"} {
		if c.env(name) != "" {
			c.printf("Environment variable %s is not supported in this version of FoundationDB.\n"+
				"                        Please use the command-line arguments instead.\n", name)
			return exitError
		}
	}
	for _, work := range []func() error{c.copyFiles, c.copyBinaries, c.copyLibraries, c.fillConf} {
		if err := work(); err != nil {
			c.errorf("%v\n", err)
			return exitError
		}
	}
	if c.init {
		return exitSuccess
	}
	return c.serve(ctx)
}

// sourceEnvironment reads the file that ADDITIONAL_ENV_FILE names, as packaging/docker/entrypoint.bash does.
func (c *sidecar) sourceEnvironment() {
	more, err := c.additionalEnvironment(c.env("ADDITIONAL_ENV_FILE"))
	if err != nil {
		c.errorf("%v\n", err) // the shell goes on
	}
	for name, value := range more {
		c.Environ = append(c.Environ, name+"="+strings.Trim(value, `"'`))
	}
}

// complete fills in what comes from the environment.
func (c *sidecar) complete() error {
	content, err := os.ReadFile(c.path(versionAt))
	if err != nil {
		return err
	}
	c.version = strings.TrimSpace(string(content))
	if c.tls {
		for _, one := range []struct {
			value *string
			name  string
			what  string
		}{{&c.certificate, "FDB_TLS_CERTIFICATE_FILE", "certificate"}, {&c.authority, "FDB_TLS_CA_FILE", "CA"}, {&c.key, "FDB_TLS_KEY_FILE", "key"}} {
			if *one.value == "" {
				*one.value = c.env(one.name)
			}
			if *one.value == "" {
				return fmt.Errorf("a %s file is missing: its argument or %s", one.what, one.name)
			}
		}
		if c.rules == "" {
			c.rules = c.env("FDB_TLS_VERIFY_PEERS")
		}
	}
	c.substitutions = map[string]*string{}
	set := func(name, value string) {
		if _, there := c.substitutions[name]; !there {
			c.names = append(c.names, name)
		}
		c.substitutions[name] = &value
	}
	for _, name := range []string{"FDB_PUBLIC_IP", "FDB_MACHINE_ID", "FDB_ZONE_ID", "FDB_INSTANCE_ID", "FDB_POD_IP"} {
		set(name, c.env(name))
	}
	value := func(name string) string { return *c.substitutions[name] }
	if value("FDB_MACHINE_ID") == "" {
		set("FDB_MACHINE_ID", c.env("HOSTNAME"))
	}
	if value("FDB_ZONE_ID") == "" {
		set("FDB_ZONE_ID", value("FDB_MACHINE_ID"))
	}
	if value("FDB_PUBLIC_IP") == "" {
		set("FDB_PUBLIC_IP", value("FDB_POD_IP"))
	}
	set("BINARY_DIR", "/usr/bin")
	if c.mainVersion != c.version {
		set("BINARY_DIR", c.mainConfDir+"/bin/"+c.version)
	}
	for _, name := range c.variables {
		if text, there := c.lookup(name); there {
			set(name, text)
		} else {
			c.names = append(c.names, name)
			c.substitutions[name] = nil
		}
	}
	if c.family != "" {
		for _, name := range []string{"FDB_PUBLIC_IP", "FDB_POD_IP"} {
			ip, err := wantedIP(value(name), c.family)
			if err != nil {
				return err
			}
			set(name, ip)
		}
	}
	if c.bind == "" {
		c.bind = value("FDB_POD_IP") + ":8080"
		if value("FDB_POD_IP") == "" {
			c.bind = value("FDB_PUBLIC_IP") + ":8080"
		}
	}
	return nil
}

// wantedIP returns the first IP of a list that is of a family; IPv6 in brackets.
func wantedIP(list, family string) (string, error) {
	if list == "" {
		return "", nil
	}
	for text := range strings.SplitSeq(list, ",") {
		ip := net.ParseIP(text)
		switch {
		case ip == nil:
		case family == "4" && ip.To4() != nil:
			return text, nil
		case family == "6" && ip.To4() == nil:
			return "[" + text + "]", nil
		}
	}
	return "", fmt.Errorf("failed to find IPv%s entry in %s", family, list)
}

// noContents is the error of a file that must not be empty; from 7.4 on the answer is 400 and not 500.
type noContents string

func (e noContents) Error() string { return "No contents for file " + string(e) }

func (c *sidecar) copyFiles() error {
	for _, name := range c.notEmpty {
		file := filepath.Join(c.input, name)
		if info, err := os.Stat(c.path(file)); err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
			return noContents(file)
		}
	}
	for _, name := range c.files {
		if err := copyFile(c.path(filepath.Join(c.input, name)), c.path(filepath.Join(c.output, name)), false); err != nil {
			return err
		}
	}
	return nil
}

func (c *sidecar) copyBinaries() error {
	if c.mainVersion == c.version {
		return nil
	}
	for _, name := range c.binaries {
		to := c.path(filepath.Join(c.output, "bin", c.version, name))
		if exists(to) {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
			return err
		}
		if err := copyFile(c.path(binaries+name), to, false); err != nil {
			return err
		}
		if err := os.Chmod(to, 0o755); err != nil { // 0744 there: everything runs as one user
			return err
		}
	}
	return nil
}

func (c *sidecar) copyLibraries() error {
	for i, version := range c.libraries {
		name := "libfdb_c_" + version + ".so"
		to := c.path(filepath.Join(c.output, "lib", "multiversion", name))
		if i == 0 {
			to = c.path(filepath.Join(c.output, "lib", "libfdb_c.so"))
		}
		if exists(to) {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
			return err
		}
		if err := copyFile(c.path(libraries2+name), to, false); err != nil {
			return err
		}
	}
	return nil
}

// fillConf fills the template of fdbmonitor.conf: $NAME becomes the value, wherever it stands.
func (c *sidecar) fillConf() error {
	if c.conf == "" {
		return nil
	}
	content, err := os.ReadFile(c.path(filepath.Join(c.input, c.conf)))
	if err != nil {
		return err
	}
	text := string(content)
	for _, name := range c.names {
		if c.substitutions[name] == nil {
			return fmt.Errorf("the variable %s is not set", name)
		}
		text = strings.ReplaceAll(text, "$"+name, *c.substitutions[name])
	}
	target := c.path(filepath.Join(c.output, "fdbmonitor.conf"))
	temporary, err := os.CreateTemp(filepath.Dir(target), "")
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name())
	_, err = temporary.WriteString(text)
	if err := errors.Join(err, temporary.Chmod(0o644), temporary.Close()); err != nil {
		return err
	}
	return os.Rename(temporary.Name(), target)
}
