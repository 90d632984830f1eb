package release

import (
	"regexp"
	"testing"
)

func TestBannerHasTheShapeOfK3s(t *testing.T) {
	Version, Commit = "v1.37.2+standin1", "0123456789abcdef"
	shape := regexp.MustCompile(`^k3s version v1\.37\.2\+standin1 \(0123456789abcdef\)\ngo version go\d+\.\d+\S*\n.*stand-in for k3s, not k3s.*\n$`)
	if !shape.MatchString(Banner()) {
		t.Errorf("got %q", Banner())
	}
}
