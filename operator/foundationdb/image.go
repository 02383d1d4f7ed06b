package foundationdb

import (
	"slices"

	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// ImageOf returns the image for a version: of each field the first value counts whose entry is for this version
// or for all. It fails with SpecInvalid where nothing names the image.
func ImageOf(configs []v1beta2.ImageConfig, version string) (string, error) {
	var c v1beta2.ImageConfig
	for _, next := range configs {
		if next.Version != "" && next.Version != version {
			continue
		}
		c.BaseImage = either(c.BaseImage, next.BaseImage)
		c.Tag = either(c.Tag, next.Tag)
		c.TagSuffix = either(c.TagSuffix, next.TagSuffix)
	}
	switch {
	case c.BaseImage == "":
		return "", SpecInvalid.Errorf("imageConfigs: no entry for version %q has a baseImage", version)
	case c.Tag != "":
		return c.BaseImage + ":" + c.Tag, nil
	case version == "":
		return "", SpecInvalid.Errorf("imageConfigs: no entry has a tag, and there is no version")
	}
	return c.BaseImage + ":" + version + c.TagSuffix, nil
}

// withDefaultImage adds the entry that counts where the others say nothing.
func withDefaultImage(configs []v1beta2.ImageConfig, last v1beta2.ImageConfig) []v1beta2.ImageConfig {
	if slices.Contains(configs, last) {
		return configs
	}
	return append(configs, last)
}
