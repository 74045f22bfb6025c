//go:build unix

package main

// interpreterMutants are faults in interpreters that remember, and in artifacts.
var interpreterMutants = []mutant{
	{
		name: "output of code that was cut twice is there twice",
		rule: "G2 R6.11",
		file: "internal/execution/interpreter.go",
		old:  "		batch = batch[min(uint64(len(batch)), code.tail-before):]\n",
		new:  "",
		pkg:  "./internal/execution",
		run:  "TestWhatWasCutTwiceIsThereOnce",
	},
	{
		name: "what is guessed is the end of code",
		rule: "R6.11",
		file: "internal/interpreter/slice.go",
		old:  "		if string(rest[:len(mark)]) != mark {\n",
		new:  "		if false {\n",
		pkg:  "./internal/interpreter",
		run:  "TestFramesAreFoundHoweverTheyAreCut",
	},
	{
		name: "artifacts are read from what is hidden", rule: "R6.12 R6.13",
		file: "internal/artifact/artifact.go", old: " || belowHidden(root, name, hidden) {\n", new: " {\n",
		pkg: "./internal/artifact", run: "TestCollect",
	},
}
