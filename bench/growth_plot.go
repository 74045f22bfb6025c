package bench

import (
	"bufio"
	"fmt"
	"html"
	"io"
	"math"
)

// The plot of WriteGrowthPlot, in pixels.
const (
	plotWidth, plotHeight = 560.0, 360.0
	plotLeft, plotTop     = 60.0, 30.0
	plotRight             = 320.0 // room for the names of the lines
	plotDecades           = 4.0   // the highest ratio, as a power of ten
)

var plotColours = []string{
	"#1b6ca8", "#c8553d", "#3a7d44", "#8a5a9e", "#b8860b", "#2f8f8f", "#7a7a7a", "#d1495b", "#444",
}

// WriteGrowthPlot writes a plot in SVG: a line for each cost over a store, divided by the cost at the first size, with
// logarithmic axes.
func WriteGrowthPlot(w io.Writer, g *Growth, store string, results []Result) error {
	out := bufio.NewWriter(w)
	x := func(i int) float64 { return plotLeft + plotWidth*float64(i)/float64(max(1, len(g.Sizes)-1)) }
	y := func(times float64) float64 {
		decade := min(max(math.Log10(times), -1), plotDecades)
		return plotTop + plotHeight*(plotDecades-decade)/(plotDecades+1)
	}
	fmt.Fprintf(out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" %s>`+"\n",
		plotLeft+plotWidth+plotRight, plotTop+plotHeight+50, `font-family="sans-serif" font-size="12"`)
	fmt.Fprintln(out, `<rect width="100%" height="100%" fill="#fff"/>`)
	for decade := -1; decade <= plotDecades; decade++ {
		times := math.Pow10(decade)
		fmt.Fprintf(out, `<path d="M%g %gh%g" stroke="#ddd"/><text x="%g" y="%g" text-anchor="end">%g</text>`+"\n",
			plotLeft, y(times), plotWidth, plotLeft-8, y(times)+4, times)
	}
	for i, size := range g.Sizes {
		fmt.Fprintf(out, `<text x="%g" y="%g" text-anchor="middle">%s</text>`+"\n",
			x(i), plotTop+plotHeight+20, grouped(size))
	}
	fmt.Fprintf(out, `<text x="%g" y="%g" text-anchor="middle">%s, %s; times the cost at the first size</text>`+"\n",
		plotLeft+plotWidth/2, plotTop+plotHeight+40, html.EscapeString(g.Of), store)
	for line, cost := range g.Costs {
		colour := plotColours[line%len(plotColours)]
		path := ""
		first := median(values(results, growthName(store, g.Sizes[0]), cost.Unit))
		for i, size := range g.Sizes {
			times := median(values(results, growthName(store, size), cost.Unit)) / first
			if math.IsNaN(times) || math.IsInf(times, 0) || times <= 0 {
				continue
			}
			path += fmt.Sprintf("%c%.1f %.1f", "ML"[min(len(path), 1)], x(i), y(times))
		}
		fmt.Fprintf(out, `<path d="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", path, colour)
		top := plotTop + 20*float64(line)
		fmt.Fprintf(out, `<path d="M%g %gh16" stroke="%s" stroke-width="2"/><text x="%g" y="%g">%s</text>`+"\n",
			plotLeft+plotWidth+16, top, colour, plotLeft+plotWidth+38, top+4,
			html.EscapeString(cost.Target+" "+cost.What))
	}
	fmt.Fprintln(out, "</svg>")
	return out.Flush()
}
