package foundationdb

import (
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/fdb"
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
	return append(slices.Clip(configs), last)
}

// mainVersion returns the version of the servers in new pods: the desired one, but the running one until an
// upgrade to an incompatible version has happened.
func mainVersion(c *v1beta2.FoundationDBCluster) string {
	running, err := fdb.ParseVersion(c.Status.RunningVersion)
	if err != nil {
		return c.Spec.Version
	}
	if desired, err := fdb.ParseVersion(c.Spec.Version); err == nil && desired.ProtocolCompatible(running) {
		return c.Spec.Version
	}
	return c.Status.RunningVersion
}

// MainImage returns the image of the main container of a class. It fails with SpecInvalid.
func MainImage(c *v1beta2.FoundationDBCluster, class fdb.Class) (string, error) {
	return imageFor(c, class, MainContainer, mainVersion(c))
}

// SidecarImage returns the image that the sidecar of a pod should have, which is of a class and an image type: that of the
// desired version. In an upgrade to an incompatible version a running pod gets it before the servers restart; Pod makes a
// new one with that of the main container, as the sidecar of the split image tells its servers to start with its own
// version. It fails with SpecInvalid.
func SidecarImage(c *v1beta2.FoundationDBCluster, class fdb.Class, image v1beta2.ImageType) (string, error) {
	return imageFor(ofImageType(c, image), class, SidecarContainer, c.Spec.Version)
}

// StartsAsWanted reports whether servers that start with the files of the sidecar of a split pod, which has told these
// variables, talk to those of the spec's version: it tells them to start with its own version.
func StartsAsWanted(c *v1beta2.FoundationDBCluster, class fdb.Class, pod *corev1.Pod, variables map[string]string) bool {
	if brought, err := fdb.ParseVersion(path.Base(variables[envBinaryDir])); err == nil {
		wanted, err := fdb.ParseVersion(c.Spec.Version)
		return err == nil && brought.ProtocolCompatible(wanted)
	}
	if !UpgradesIncompatibly(c) { // with what the main container has
		return true
	}
	running, err := MainImage(ofImageType(c, ImageTypeOf(pod)), class)
	return err != nil || !slices.ContainsFunc(pod.Spec.Containers, func(m corev1.Container) bool { return m.Name == MainContainer && m.Image == running })
}

// ofImageType returns the cluster as it is for pods of an image type, which may be another one than the spec's.
func ofImageType(c *v1beta2.FoundationDBCluster, image v1beta2.ImageType) *v1beta2.FoundationDBCluster {
	if unified(c.Spec) == (image != v1beta2.ImageTypeSplit) {
		return c
	}
	other := *c
	main, sidecar := &other.Spec.MainContainer.ImageConfigs, &other.Spec.SidecarContainer.ImageConfigs
	*main, *sidecar = withoutDefaults(*main), withoutDefaults(*sidecar)
	other.Spec.ImageType = image
	return &other
}

// imageFor returns the image of a container. The image of the container in the pod template is a repository
// that goes before those of the configuration.
func imageFor(c *v1beta2.FoundationDBCluster, class fdb.Class, container, version string) (string, error) {
	var configs []v1beta2.ImageConfig
	switch {
	case unified(c.Spec):
		configs = withDefaultImage(c.Spec.MainContainer.ImageConfigs, v1beta2.ImageConfig{BaseImage: unifiedImage})
	case container == MainContainer:
		configs = withDefaultImage(c.Spec.MainContainer.ImageConfigs, v1beta2.ImageConfig{BaseImage: mainImage})
	default:
		configs = withDefaultImage(c.Spec.SidecarContainer.ImageConfigs, v1beta2.ImageConfig{BaseImage: sidecarImage, TagSuffix: sidecarSuffix})
	}
	if given := givenImage(settingsOf(c.Spec, class).PodTemplate, container); given != "" {
		if strings.ContainsAny(given[strings.LastIndex(given, "/")+1:], ":@") {
			return "", SpecInvalid.Errorf("spec.processes: the image %s of container %s must have no tag, as imageConfigs gives it", given, container)
		}
		configs = slices.Insert(slices.Clone(configs), 0, v1beta2.ImageConfig{BaseImage: given})
	}
	return ImageOf(configs, version)
}

// givenImage returns the image of a container in a pod template. Empty: none.
func givenImage(template *corev1.PodTemplateSpec, container string) string {
	if template == nil {
		return ""
	}
	for _, list := range [][]corev1.Container{template.Spec.Containers, template.Spec.InitContainers} {
		for i := range list {
			if list[i].Name == container {
				return list[i].Image
			}
		}
	}
	return ""
}

// unified reports whether the cluster wants pods of the unified image.
func unified(spec v1beta2.FoundationDBClusterSpec) bool {
	return spec.ImageType != v1beta2.ImageTypeSplit
}
