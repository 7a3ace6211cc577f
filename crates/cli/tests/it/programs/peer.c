/* Another process, told line by line what to do. It does what safe Rust has no words for: shared mappings and locks of
 * byte ranges. It answers every line with one line: "ok", "ok TEXT", or the number of an error. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

enum { FILES = 8 };
static int fds[FILES];
static char *maps[FILES];
static size_t lengths[FILES];

static void say(long result)
{
    if (result < 0)
        printf("%d\n", errno);
    else
        printf("ok\n");
}

/* lock KIND HOW SLOT START LENGTH: KIND posix or ofd, HOW r, w or u, with a capital to wait. */
static long lock(const char *kind, char how, int slot, long start, long length)
{
    struct flock range = {0};
    int waits = how == 'R' || how == 'W';
    range.l_type = how == 'r' || how == 'R' ? F_RDLCK : how == 'u' ? F_UNLCK : F_WRLCK;
    range.l_whence = SEEK_SET;
    range.l_start = start;
    range.l_len = length;
    if (strcmp(kind, "ofd") == 0)
        return fcntl(fds[slot], waits ? F_OFD_SETLKW : F_OFD_SETLK, &range);
    return fcntl(fds[slot], waits ? F_SETLKW : F_SETLK, &range);
}

int main(void)
{
    static char line[16384], text[8192], word[64];
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 0; i < FILES; i++)
        fds[i] = -1;
    while (fgets(line, sizeof line, stdin)) {
        int slot = 0;
        long a = 0, b = 0;
        char how = 0;
        if (sscanf(line, "open %d %lo %8191[^\n]", &slot, &a, text) == 3) {
            fds[slot] = open(text, (int)a, 0644);
            say(fds[slot]);
        } else if (sscanf(line, "close %d", &slot) == 1) {
            say(close(fds[slot]));
        } else if (sscanf(line, "map %d %ld", &slot, &a) == 2) {
            lengths[slot] = (size_t)a;
            maps[slot] = mmap(NULL, lengths[slot], PROT_READ | PROT_WRITE, MAP_SHARED, fds[slot], 0);
            say(maps[slot] == MAP_FAILED ? -1 : 0);
        } else if (sscanf(line, "unmap %d", &slot) == 1) {
            say(munmap(maps[slot], lengths[slot]));
        } else if (sscanf(line, "msync %d", &slot) == 1) {
            say(msync(maps[slot], lengths[slot], MS_SYNC));
        } else if (sscanf(line, "poke %d %ld %8191[^\n]", &slot, &a, text) == 3) {
            memcpy(maps[slot] + a, text, strlen(text));
            say(0);
        } else if (sscanf(line, "peek %d %ld %ld", &slot, &a, &b) == 3) {
            printf("ok %.*s\n", (int)b, maps[slot] + a);
        } else if (sscanf(line, "append %d %ld %8191[^\n]", &slot, &a, text) == 3) {
            /* Many records, each in one write; the end of a record is its newline. */
            size_t length = strlen(text);
            long failed = 0;
            text[length++] = '\n';
            for (long i = 0; i < a && !failed; i++)
                failed = write(fds[slot], text, length) != (ssize_t)length;
            say(failed ? -1 : 0);
        } else if (sscanf(line, "lock %63s %c %d %ld %ld", word, &how, &slot, &a, &b) == 5) {
            say(lock(word, how, slot, a, b));
        } else if (sscanf(line, "flock %c %d", &how, &slot) == 2) {
            int kind = how == 's' ? LOCK_SH : how == 'u' ? LOCK_UN : LOCK_EX;
            say(flock(fds[slot], how == 'X' ? LOCK_EX : kind | LOCK_NB));
        } else if (sscanf(line, "holder %d %ld %ld", &slot, &a, &b) == 3) {
            struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = a, .l_len = b};
            if (fcntl(fds[slot], F_GETLK, &range) < 0)
                say(-1);
            else
                printf("ok %d\n", range.l_type == F_UNLCK ? 0 : (int)range.l_pid);
        } else {
            printf("what? %s", line);
        }
    }
    return 0;
}
