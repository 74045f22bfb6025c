//go:build unix

package main

// operationMutants are faults in what resumes operations, and in what starts commands under a key.
var operationMutants = []mutant{
	{
		name: "a change needs no more than reading", rule: "R3.1; docs/security.md",
		file: "internal/api/streams.go",
		old:  "func (s *Server) configureStream(x *exchange) error {\n	stream, err := s.stream(x, identity.ScopeControl)",
		new:  "func (s *Server) configureStream(x *exchange) error {\n	stream, err := s.stream(x, identity.ScopeRead)",
		pkg:  "./internal/api", run: "TestPatchNeedsControl",
	},
	{
		name: "a changed execution is another one for its request", rule: "G9",
		file: "internal/execution/configure.go", old: "	return digestOf(&info.Config) == digestOf(config)",
		new: "	return info.Config.EqualButAccount(*config)",
		pkg: "./internal/api", run: "TestPatchChangesExecution",
	},
	{
		name: "a changed stream takes labels of the server", rule: "R3.1",
		file: "internal/api/streams.go",
		old:  "		if _, given := body.Labels[own]; given {\n			return unprocessable(\"labels\", \"the label \"+own+\" is the server's own\")\n		}\n	}\n	info, err",
		new:  "		_ = own\n	}\n	info, err",
		pkg:  "./internal/api", run: "TestPatchRefuses",
	},
	{
		name: "step of which nobody knows is done again",
		rule: "R6.9",
		file: "operation/operation.go",
		old:  "	case known.State == StepUnknown && (opts",
		new:  "	case false && (opts",
		pkg:  "./operation",
		run:  "TestStepOfUnknownOutcomeIsNotRepeated|TestKilled",
	},
	{
		name: "finished step is done again", rule: "R6.9",
		file: "operation/operation.go", old: "	case known.State == StepDone:\n", new: "	case false:\n",
		pkg: "./operation", run: "TestRunAfterFailureSkipsFinishedSteps|TestKilled",
	},
	{
		name: "step is not recorded before it is done",
		rule: "R6.9",
		file: "operation/operation.go",
		old:  "o.append(typeStepBegan, entry{Step: name}); err != nil {",
		new:  "error(nil); err != nil {",
		pkg:  "./operation",
		run:  "TestKilled",
	},
	{
		name: "attempt is taken for dead while its process lives",
		rule: "R6.9",
		file: "operation/runner.go",
		old:  "	case r.member.Alive(newest.Replica):\n		return true, nil\n",
		new:  "	case r.member != nil:\n		return false, nil\n",
		pkg:  "./operation",
		run:  "TestConcurrentCallersRunJobOnce",
	},
	{
		name: "attempts have no fence", rule: "R6.9",
		file: "operation/attempt.go", old: "	a.owner = reprise.Owner{Name: a.entry.ID, Fence: fence}\n", new: "",
		pkg: "./operation", run: "TestReplicaDies|TestConcurrentCallersRunJobOnce",
	},
	{
		name: "record that was cut is taken for a whole one", rule: "R6.9 G1",
		file: "operation/record.go", old: "reprise.After(s.Cursor(0))", new: "reprise.Earliest()",
		pkg: "./operation", run: "TestCutRecord",
	},
	{
		name: "handle removes a later stream of its name", rule: "R6.9",
		file: "submit.go", old: "RemoveSpec{Epoch: epoch}); err != nil {", new: "RemoveSpec{}); err != nil {",
		pkg: ".", run: "TestStreamRemoveKeepsNewerEpoch",
	},
	{
		name: "every caller that finds a failure makes room for itself",
		rule: "R6.9",
		file: "internal/execution/keyed.go",
		old:  "return Execution{}, false, s.Remove(ctx)\n",
		new:  "return Execution{}, false, h.log.Remove(ctx, key)\n",
		pkg:  "./internal/execution",
		run:  "TestKeyStartsOnceBehindAnother",
	},
	{
		name: "key is answered with a failure",
		rule: "R6.9",
		file: "internal/execution/keyed.go",
		old:  "	case err == nil && !x.failed():\n",
		new:  "	case err == nil:\n",
		pkg:  "./internal/execution",
		run:  "TestKeyStartsAgain|TestKeyAfterReplicaDies",
	},
	{
		name: "key takes another request", rule: "R6.9",
		file: "internal/execution/keyed.go", old: "	case !info.Config.Equal(config):\n", new: "	case false:\n",
		pkg: "./internal/execution", run: "TestKeyIsAnsweredFromTheRecord",
	},
	{
		name: "key outlives its execution",
		rule: "R6.9 G7",
		file: "internal/execution/append.go",
		old:  "	r.host.endKey(r.host.ctx, r.key, &r.config, e.Outcome)\n",
		new:  "",
		pkg:  "./internal/execution",
		run:  "TestKeyIsAnsweredFromTheRecord|TestKeyIsForgottenWithItsExecution",
	},
	{
		name: "key that is not ended with its execution stays", rule: "R6.9 G7",
		file: "internal/execution/recover.go", old: "	return h.endKeys(ctx)\n", new: "	return nil\n",
		pkg: "./internal/execution", run: "TestKeyOfServerThatDiesHalfway",
	},
	{
		name: "message whose append has failed counts as queued", rule: "R10.12",
		file: "internal/webhook/queue.go",
		old:  "	if err := q.append(ctx, events); err != nil {\n		q.progress.Queued, q.lost = before, err\n",
		new:  "	if err := q.append(ctx, events); err != nil {\n",
		pkg:  "./internal/webhook", run: "TestFailedAppendIsNotCounted",
	},
}
