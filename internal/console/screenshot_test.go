package console_test

import (
	"bytes"
	"flag"
	"image"
	"image/color"
	"image/png"
	"os"
	"slices"
	"testing"
)

var screenshots = flag.String("screenshots", "", "folder into which the pictures of docs/console.md are written")

// TestScreenshots makes the pictures of docs/console.md.
func TestScreenshots(t *testing.T) {
	if *screenshots == "" {
		t.Skip("no folder is named with -screenshots")
	}
	s := startServer(t)
	fill(s)
	p := s.login(startBrowser(t), 1180, 700, "#/executions")
	p.until(`document.querySelectorAll(".rows .row").length === 8`)
	p.save("console-list.png")

	p.eval(`location.hash = "#/executions/tests"`)
	p.until(counted("live") + " > 60")
	p.click("button", "Cut the connection")
	p.until(counted("missed while away") + " > 90")
	p.click("button", "Resume")
	p.until(`document.querySelector('[data-count="missed while away"]').innerText.includes("all back")`)
	p.until(counted("live") + " > 160")
	p.save("console-resume.png")
	p.scheme("dark")
	p.size(400, 760, true)
	p.click("button", "Cut the connection")
	p.until(phase + `.includes("phase-cut")`)
	p.until(counted("missed while away") + " > 60")
	p.until(`document.querySelector(".term").getBoundingClientRect().bottom > 600`)
	p.save("console-phone.png")

	p.scheme("light")
	p.size(1180, 500, false)
	p.eval(`location.hash = "#/executions/shell"`)
	p.text("Click to type into it.")
	p.until(`(document.querySelector(".xterm-helper-textarea").focus(), true)`)
	p.text("All keys go to the program")
	p.until(`!document.body.innerText.includes("100×24")`)
	p.call("Input.insertText", map[string]any{"text": "ls -l --color=always /usr/bin | head -3; wc build.sh tests.sh"})
	p.press("Enter")
	p.onBoard("total")
	p.save("console-terminal.png")

	p.eval(`location.hash = "#/schedules"`)
	p.text("report.sh")
	p.click("button", "New schedule")
	p.text("Create")
	p.save("console-schedules.png")
	p.eval(`location.hash = "#/tasks"`)
	p.text("execute_code")
	p.save("console-tasks.png")
	p.eval(`location.hash = "#/replicas"`)
	p.text("this page")
	p.save("console-replicas.png")
	p.eval(`location.hash = "#/webhooks/` + s.listed("webhooks") + `"`)
	p.click("button", "New secret")
	p.text("is shown this once")
	p.save("console-webhook.png")
}

// save writes what the page shows, in few colours, which makes a page a quarter of the size.
func (p *page) save(name string) {
	p.Helper()
	p.eval("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
	full, err := png.Decode(bytes.NewReader(p.screenshot()))
	check(p, err)
	var out bytes.Buffer
	check(p, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, fewColours(full)))
	check(p, os.WriteFile(*screenshots+"/"+name, out.Bytes(), 0o644))
}

// fewColours gives a picture the 256 colours that it has most of, after a rounding that nobody sees.
func fewColours(full image.Image) image.Image {
	bounds := full.Bounds()
	count := map[color.RGBA]int{}
	rounded := func(x, y int) color.RGBA {
		r, g, b, _ := full.At(x, y).RGBA()
		round := func(v uint32) uint8 { return uint8(v>>8) | 3 }
		return color.RGBA{round(r), round(g), round(b), 255}
	}
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			count[rounded(x, y)]++
		}
	}
	palette := make(color.Palette, 0, len(count))
	for c := range count {
		palette = append(palette, c)
	}
	slices.SortFunc(palette, func(a, b color.Color) int { return count[b.(color.RGBA)] - count[a.(color.RGBA)] })
	palette = palette[:min(len(palette), 256)]
	small := image.NewPaletted(bounds, palette)
	nearest := map[color.RGBA]uint8{}
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			c := rounded(x, y)
			at, known := nearest[c]
			if !known {
				at = uint8(palette.Index(c))
				nearest[c] = at
			}
			small.SetColorIndex(x, y, at)
		}
	}
	return small
}
