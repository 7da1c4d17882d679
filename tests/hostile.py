"""Names as somebody could write them into a run folder to deceive its reader."""

HOSTILE = {
    "cells": "a | b |\n| --- | --- |",
    "script": "</td></script><script>alert(1)</script><img src=x onerror=alert(2)>",
    "comment": "<!-- --> <?php ?> <![CDATA[ ]]> &lt;b&gt; &#60;b&#62;",
    "link": "[report](javascript:alert(1)) [a][b] [1, 2](other) <http://evil.example> [^1]",
    "image": '![](http://evil.example/pixel.png "title")',
    "address": "https://evil.example www.evil.example www.1.2 evil.com //evil.example someone@evil.example @someone",
    "emphasis": "**all runs** *failed* __and__ _so_ ~~did~~ ~this~ $\\frac$",
    "code": "`rm -rf` ``x`` \\` \\",
    "blocks": "x\n\n# Heading\n\n- list\n> quote\n```\ncode\n```\n---\n[r]: http://evil.example",
    "escape": "\x1b]0;owned\x07\x1b[2J\x1b[31mred\x9b31m\x7f\b\x00",
    "lines": "x\r\nmrq: all runs are finished\x0b\x0c\x85\u2028\u2029y",
    "direction": "\u202etxt.exe\u202c \u2066x\u2069 \u200f \ufeff",
    "halves": "\ud800 \udcff \ufffe",
    "styles": "[bold red]x[/] [/nothing] :smile: {task.description} %s",
    "formula": "=cmd|'/C calc'!A0",
    "sum": "+1+1;=1+1",
    "minus": "-2+3",
    "at": "@SUM(1)",
    "tab": "\t=1+1",
    "return": "\r=1+1",
    "wide": "\uff1d1+1",
}
EVERYTHING = " ".join(HOSTILE.values())
