module readers

go 1.26

require github.com/launchdarkly/eventsource v1.11.0
