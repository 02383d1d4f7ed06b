package program

import (
	"context"
	"errors"
	"flag"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/pawl-dev/pawl/fdb"
)

// launcherFlags are the flags of fdb-kubernetes-monitor, with their defaults. Source: fdbkubernetesmonitor/main.go at
// 7.1.67, 7.3.69 and 7.4.6.
type launcherFlags struct {
	mode, inputDir, conf, outputDir         string
	fdbserverPath, versionFile              string
	sharedBinaryDir, binaryOutputDir        string
	mainVersion, additionalEnv, primary     string
	logPath                                 string
	files, binaries, libraries, notEmpty    texts
	processCount                            int
	nodeWatch                               bool
	ignoredText, ignoredText2, ignoredText3 string
	ignored                                 bool
}

// texts is a flag that may be given several times.
type texts []string

func (t *texts) String() string { return strings.Join(*t, ",") }

// Set adds a value.
func (t *texts) Set(value string) error {
	*t = append(*t, value)
	return nil
}

func (p *Process) launcherFlagSet(f *launcherFlags) *flag.FlagSet {
	s := flag.NewFlagSet("fdb-kubernetes-monitor", flag.ContinueOnError)
	s.SetOutput(p.Stderr)
	s.StringVar(&f.mode, "mode", "launcher", "launcher, sidecar or init")
	s.StringVar(&f.fdbserverPath, "fdbserver-path", "/usr/bin/fdbserver", "path of fdbserver")
	s.StringVar(&f.inputDir, "input-dir", ".", "folder of the input files")
	s.StringVar(&f.conf, "input-monitor-conf", "config.json", "name of the configuration in the input folder")
	s.StringVar(&f.logPath, "log-path", "", "file that gets the log too")
	s.StringVar(&f.outputDir, "output-dir", ".", "folder that files are copied to")
	s.Var(&f.files, "copy-file", "file to copy")
	s.Var(&f.binaries, "copy-binary", "program to copy from /usr/bin")
	s.StringVar(&f.versionFile, "version-file", "/var/fdb/version", "file with the version of the container")
	s.StringVar(&f.sharedBinaryDir, "shared-binary-dir", "/var/fdb/shared-binaries/bin", "folder of programs that a sidecar has copied")
	s.StringVar(&f.binaryOutputDir, "binary-output-dir", "", "folder below the output folder for programs")
	s.Var(&f.libraries, "copy-library", "version of the client library to copy")
	s.StringVar(&f.primary, "copy-primary-library", "", "version of the client library to copy as libfdb_c.so")
	s.Var(&f.notEmpty, "require-not-empty", "file that must not be empty when it is copied")
	s.StringVar(&f.mainVersion, "main-container-version", "", "version of the main container: nothing is copied if it is this one")
	s.StringVar(&f.additionalEnv, "additional-env-file", "", "file with more variables")
	s.IntVar(&f.processCount, "process-count", 1, "how many servers to start")
	s.BoolVar(&f.nodeWatch, "enable-node-watch", false, "read the labels of the node")
	s.BoolVar(&f.ignored, "enable-pprof", false, "not played")
	s.StringVar(&f.ignoredText, "listen-address", ":8081", "not played")
	s.StringVar(&f.ignoredText2, "certificate-path", "", "not played")
	s.StringVar(&f.ignoredText3, "certificate-key-path", "", "not played")
	return s
}

// flagsOf reads the flags; one that is not given comes from the environment variable of the same name.
func (p *Process) flagsOf() (f launcherFlags, err error) {
	s := p.launcherFlagSet(&f)
	given := map[string]bool{}
	if err := s.Parse(p.Args[1:]); err != nil {
		return f, err
	}
	s.Visit(func(one *flag.Flag) { given[one.Name] = true })
	s.VisitAll(func(one *flag.Flag) {
		value, there := p.lookup(strings.ToUpper(strings.ReplaceAll(one.Name, "-", "_")))
		if there && !given[one.Name] && err == nil {
			err = one.Value.Set(value)
		}
	})
	return f, err
}

// launcherLog is the log of the launcher: JSON, a line a message.
type launcherLog struct{ *slog.Logger }

func (l *launcherLog) info(message string, args ...any) { l.Info(message, args...) }
func (l *launcherLog) fail(err error, message string)   { l.Error(message, "error", err) }

func (p *Process) launcherLog(path string) (*launcherLog, func()) {
	out, done := p.Stdout, func() {}
	if path != "" {
		if f, err := os.OpenFile(p.path(path), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644); err == nil {
			out, done = io.MultiWriter(p.Stdout, f), func() { f.Close() }
		}
	}
	return &launcherLog{slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		switch a.Key {
		case slog.TimeKey:
			return slog.Float64("ts", float64(a.Value.Time().UnixMicro())/1e6)
		case slog.LevelKey:
			return slog.String("level", strings.ToLower(a.Value.String()))
		}
		return a
	}}))}, done
}

// launcher runs fdb-kubernetes-monitor: servers, or copies of files, or both in turn for another container.
func (p *Process) launcher(ctx context.Context) int {
	f, err := p.flagsOf()
	if errors.Is(err, flag.ErrHelp) {
		return exitSuccess
	}
	if err != nil {
		p.errorf("%v\n", err)
		return 2
	}
	log, done := p.launcherLog(f.logPath)
	defer done()
	content, err := os.ReadFile(p.path(f.versionFile))
	if err != nil {
		p.errorf("panic: %v\n", err)
		return 2
	}
	version := strings.TrimSpace(string(content))
	copies, err := p.copyPlan(f, version)
	if err != nil {
		log.fail(err, "Error getting list of files to copy")
		return exitError
	}
	switch f.mode {
	case "launcher":
		parsed, err := fdb.ParseVersion(version)
		if err != nil {
			log.fail(err, "Error parsing container version")
			return exitError
		}
		return p.launch(ctx, f, parsed, log)
	case "init":
		if err := p.copyAll(f.outputDir, copies, log); err != nil {
			log.fail(err, "Error copying files")
			return exitError
		}
		return exitSuccess
	case "sidecar":
		if f.mainVersion != version {
			if err := p.copyAll(f.outputDir, copies, log); err != nil {
				log.fail(err, "Error copying files")
				return exitError
			}
		}
		log.info("Waiting for process to be terminated")
		return p.idle(ctx)
	}
	log.fail(nil, "Unknown execution mode")
	return exitError
}
