package resumetest

import "context"

// CheckCase is Check of one case at one version.
func CheckCase(ctx context.Context, target Target, name, version string) Result {
	target = target.withDefaults()
	defer target.Client.CloseIdleConnections()
	for _, c := range cases() {
		if c.name == name {
			return check(ctx, target, c, version)
		}
	}
	panic("no case " + name)
}
