package agent

import "testing"

func TestWhatCountsAsAnImageArchive(t *testing.T) {
	for name, want := range map[string]bool{
		"k3s-airgap-images-amd64.tar":     true,
		"k3s-airgap-images-amd64.tar.zst": true,
		"own.TAR.GZ":                      true,
		"images.txt":                      false,
		".cache.json":                     false,
		"tar":                             false,
	} {
		if got := isArchive(name); got != want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
