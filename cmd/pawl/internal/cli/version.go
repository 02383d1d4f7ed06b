package cli

import "runtime/debug"

// VersionText is the version the linker set, else that of the module or the commit.
func (a *App) VersionText() string {
	if a.Version != "" {
		return a.Version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value[:min(12, len(s.Value))]
		}
	}
	return "unknown"
}
